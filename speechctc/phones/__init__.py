"""Phones: inventories and foldings."""

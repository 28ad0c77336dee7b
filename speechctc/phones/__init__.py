"""Phones: inventories, foldings, spellings, and matches between sets."""

"""Plugins: speechctc inside ELAN and Praat."""

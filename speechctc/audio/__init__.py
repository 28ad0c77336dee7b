"""Recordings: reading, resampling, and files of labels beside them."""

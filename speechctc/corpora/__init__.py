"""Corpora: recordings with phone labels; one reader for each kind."""

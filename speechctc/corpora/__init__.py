"""Corpora: recordings with phone labels, one reader per kind, one shape for what they find."""

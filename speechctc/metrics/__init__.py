"""Scores: phone error rate and boundary errors."""

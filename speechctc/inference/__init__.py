"""A trained model applied to recordings."""

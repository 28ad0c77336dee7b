"""Use a trained model: decode, align, write results."""

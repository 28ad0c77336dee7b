"""Use a trained model: decode, align, score phones, write results."""

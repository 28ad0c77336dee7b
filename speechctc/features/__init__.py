"""Features: from samples to frames, and their shards on disk."""

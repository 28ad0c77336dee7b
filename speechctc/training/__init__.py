"""Training: from checked shards to a run's checkpoints, in bounded memory, resumable anywhere."""

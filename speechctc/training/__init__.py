"""Training: from feature shards to checkpoints, in bounded memory; a run can be resumed at any step."""

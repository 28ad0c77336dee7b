"""The net and its checkpoints."""

"""Recognition: a checkpoint at work on recordings, and its results on their way out."""

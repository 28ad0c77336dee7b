"""The studio: a local page to listen, correct and train again."""

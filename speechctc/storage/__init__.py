"""Files: written completely or not at all, and never over a person's changes."""

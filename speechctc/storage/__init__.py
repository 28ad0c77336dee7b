"""Files: written whole, never over what a person made."""

"""The config: its schema, and how it is loaded."""

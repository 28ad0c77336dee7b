"""Doctor: checks of a corpus, its features and the machine, before long work."""

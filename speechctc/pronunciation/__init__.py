"""Pronunciations of words: dictionaries, and eSpeak NG for what they lack."""

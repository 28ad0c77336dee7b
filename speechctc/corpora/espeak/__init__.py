"""The corpus of any language, spoken by eSpeak NG."""

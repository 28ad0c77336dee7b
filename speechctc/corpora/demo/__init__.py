"""The demo corpus: American English spoken by eSpeak NG."""

"""A corpus of English, spoken by flite with voices made from recordings."""

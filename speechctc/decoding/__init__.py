"""From emissions to phones: search with an n-gram."""

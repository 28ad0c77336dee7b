"""Language models of phones: back-off n-grams, ARPA files, and recurrent nets."""

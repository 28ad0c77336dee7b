"""Language models of phones: n-grams, ARPA files, recurrent nets; greedy and beam search."""

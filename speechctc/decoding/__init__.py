"""Find phone sequences in posteriors: greedy, or a beam search with an n-gram of phones."""

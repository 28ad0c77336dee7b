"""N-grams of phones: estimated, pruned, read and written as ARPA files, and as the search reads them."""

"""Building blocks for numba code on CPUs: vectors, pointers, threads, the cache on disk."""

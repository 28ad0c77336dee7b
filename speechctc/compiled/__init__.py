"""What compiled code on CPUs is made of: memory, vectors, threads, a cache on disk. The loss and the net use it."""

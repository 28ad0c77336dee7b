"""What compiled code on CPUs is made of: memory, vectors, threads, a cache on disk. Loss, net and search use it."""

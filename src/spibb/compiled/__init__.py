"""What compiled code shares: how it is compiled, threads, GPUs, random numbers, kinds of arrays."""

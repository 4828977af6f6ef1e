"""The only doors to the world: clock, network, threads, files, randomness and host."""

"""The environment: clock, network, threads, files, randomness and host; nothing else reaches the outside world."""

"""The cost of clients: CPU time a message of the client's process, rates, latencies and memory, side by side."""

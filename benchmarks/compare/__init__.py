"""Two or more brokers in turn: rates, CPU time, latencies, memory and start-up, and their ratios to the real one."""

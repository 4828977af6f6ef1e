"""What a broker counts: totals, rates, statistics of queues, and its runtime information."""

"""The broker's counters: totals, rates, statistics of queues, and its runtime information."""

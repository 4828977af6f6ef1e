"""The message store: an append-only log shared by all topics, and queues that point into it."""

"""How smartgo's costs grow: with the backlog, with connections, with topics, and with brokers on one machine."""

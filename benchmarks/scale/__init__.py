"""Costs of smartgo at growing sizes: of the backlog, of connections, of topics, and of brokers on one machine."""

"""The broker among others: its registration at registries, its lease of the master's place, replication."""

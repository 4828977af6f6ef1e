"""The tables that a broker keeps beside its store: topics, groups, offsets, clients, long polls; and their limits."""

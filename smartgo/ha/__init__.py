"""Replication of the log by byte range, from a master to its slaves."""

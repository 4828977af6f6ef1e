"""Figures of a process and of the cluster: metrics for Prometheus, samples, and their history."""

"""Alerts: what is wrong in the cluster, since when, and whether somebody knows."""

"""Alerts: problems of the cluster, since when they last, and which of them are silenced."""

"""Checks of what is installed."""

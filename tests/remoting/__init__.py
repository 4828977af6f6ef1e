"""Frames, requests and connections."""

"""Frames, requests and connections: a small framework for servers and clients of the remoting protocol."""

"""Tests of L{smartgo.client.internal}."""

"""Tests of L{smartgo.registry}."""

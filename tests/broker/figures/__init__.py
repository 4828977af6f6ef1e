"""Tests of L{smartgo.broker.figures}."""

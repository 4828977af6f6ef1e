"""Tests of L{smartgo.broker.processors}."""

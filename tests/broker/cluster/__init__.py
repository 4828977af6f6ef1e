"""Tests of L{smartgo.broker.cluster}."""

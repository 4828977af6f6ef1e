"""Tests of L{smartgo.broker.stages}."""

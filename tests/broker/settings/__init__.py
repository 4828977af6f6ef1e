"""Tests of L{smartgo.broker.settings}."""

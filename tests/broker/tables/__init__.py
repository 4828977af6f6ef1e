"""Tests of L{smartgo.broker.tables}."""

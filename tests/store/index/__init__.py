"""Tests of L{smartgo.store.index}."""

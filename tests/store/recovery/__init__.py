"""Tests of L{smartgo.store.recovery}."""

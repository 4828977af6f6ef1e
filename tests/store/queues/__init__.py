"""Tests of L{smartgo.store.queues}."""

"""Tests of L{smartgo.store}."""

"""Tests of L{smartgo.testing}."""

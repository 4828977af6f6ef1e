"""Tests of L{smartgo.config}."""

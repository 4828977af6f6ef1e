"""Tests of L{smartgo.ops.reading}."""

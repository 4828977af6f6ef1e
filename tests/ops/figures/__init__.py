"""Tests of L{smartgo.ops.figures}."""

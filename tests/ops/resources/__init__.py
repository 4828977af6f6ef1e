"""Tests of L{smartgo.ops.resources}."""

"""Tests of L{smartgo.ops.web}."""

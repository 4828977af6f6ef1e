"""Tests of L{smartgo.auth}."""

"""Tests of L{smartgo.cli.support}."""

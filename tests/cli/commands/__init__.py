"""Tests of L{smartgo.cli.commands}."""

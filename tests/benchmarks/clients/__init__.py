"""Tests for L{benchmarks.clients}."""

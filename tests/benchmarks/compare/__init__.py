"""Tests for L{benchmarks.compare}."""

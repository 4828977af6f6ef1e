"""Tests of the benchmarks: what they read, work out and put on the wire."""

"""Tests of L{smartgo.broker.sql}."""

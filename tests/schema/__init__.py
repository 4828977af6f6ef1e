"""Tests of smartgo.schema."""

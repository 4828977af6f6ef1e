"""Tests of the smartgo command."""

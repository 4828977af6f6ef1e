"""Tests of the tools for a store directory."""

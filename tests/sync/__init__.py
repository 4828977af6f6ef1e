"""Tests of the client for programs that block."""

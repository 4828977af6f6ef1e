"""Tests of the judgements about the health of a cluster."""

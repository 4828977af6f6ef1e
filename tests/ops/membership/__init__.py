"""Tests of the memory of the cluster's members."""

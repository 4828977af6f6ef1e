"""Tests of the assemblies."""

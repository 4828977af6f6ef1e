"""Tests of L{smartgo.spark.export}."""

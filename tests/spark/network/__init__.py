"""Tests of L{smartgo.spark.network}."""

"""Tests of smartgo.spark. Those that need Spark itself share one session, see L{tests.spark.session}."""

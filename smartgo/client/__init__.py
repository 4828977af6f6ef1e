"""The client library: producers, pull and push consumers, administration. Start at L{smartgo.client.client}."""

"""The client library: producers, pull and push consumers, administration. Programs import from C{smartgo} itself."""

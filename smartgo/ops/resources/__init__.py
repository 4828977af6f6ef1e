"""The resources of the REST API, a module a noun."""

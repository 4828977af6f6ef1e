"""The value classes of JSON bodies, a module a family; imported through L{smartgo.schema.bodies}."""

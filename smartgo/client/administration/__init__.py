"""The parts of L{smartgo.client.admin.Admin}, a module a subject."""

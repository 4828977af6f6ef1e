"""The C{smartgo} command, a module a noun."""

"""The subcommands of C{smartgo}, a module a noun."""

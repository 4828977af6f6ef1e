"""The value classes of request and response headers, a module a request family."""

"""The REST API, its security, and the console's pages: Klein resources over the client library's administration."""

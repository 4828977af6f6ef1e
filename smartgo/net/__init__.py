"""TLS, for every port of ours and every connection that we make."""

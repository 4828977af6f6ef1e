"""Access control of the API: tokens, sessions, checks of a request's origin, and a record of what was changed."""

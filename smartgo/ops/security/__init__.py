"""Who may ask what: tokens, sessions, checks of where a request comes from, and a record of what was changed."""

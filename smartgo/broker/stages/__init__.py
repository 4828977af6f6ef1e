"""The stages of a message between its request and the log, one module each."""

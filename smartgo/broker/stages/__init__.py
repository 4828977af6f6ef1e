"""What may happen to a message between its request and the log, a module a stage."""

"""The message index: files that lead from a key to the messages that carry it."""

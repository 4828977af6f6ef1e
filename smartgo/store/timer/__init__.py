"""The timer log: which messages wait for a delivery time, by that time, derived from the CommitLog."""

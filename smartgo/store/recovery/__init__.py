"""Opening a store: what its files hold after a stop, a kill or a power failure, and repairing what is torn."""

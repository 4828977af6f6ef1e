"""The simulator: registries, brokers, slaves and clients in one thread, on a virtual clock, network and disk."""

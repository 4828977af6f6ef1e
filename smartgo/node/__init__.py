"""The assemblies that twistd runs: registry, broker, or both in one process."""

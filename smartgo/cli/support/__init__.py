"""The shared parts of subcommands: sessions, output, progress, a local cluster, the offline check of a store."""

"""What several subcommands use: sessions, output, progress, a local cluster, the offline check of a store."""

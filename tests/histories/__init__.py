"""Random histories of stores, brokers and replicas, judged against a plain model (docs/histories)."""

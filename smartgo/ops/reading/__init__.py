"""What resources read from the cluster and its messages, without any HTTP."""

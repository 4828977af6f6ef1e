"""Reading of clusters and messages for the resources, without any HTTP."""

"""The memory of the cluster's members: brokers, slaves and registries that were there, until a person removes them."""

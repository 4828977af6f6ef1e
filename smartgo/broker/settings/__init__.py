"""A broker's settings while it runs: which are in force, which were changed, and the store's part of them."""

"""The web console: the files that browsers run, and the modules that serve them."""

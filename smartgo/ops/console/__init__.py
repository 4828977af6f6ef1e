"""The web console: files for browsers, and what serves them. There is no program of ours in it that runs here."""

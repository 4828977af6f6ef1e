"""One schema of every setting, its readers (TOML, properties, environment, flags), and where each value came from."""

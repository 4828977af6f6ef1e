"""Load generators and comparisons that do not use smartgo's own client: C{python -m benchmarks --help}."""

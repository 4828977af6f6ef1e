"""C{smartgo-spark export}: messages of stores into tables, bit by bit and each exactly once."""

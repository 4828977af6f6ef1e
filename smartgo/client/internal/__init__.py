"""The building blocks of producers and consumers; applications import from L{smartgo} alone."""

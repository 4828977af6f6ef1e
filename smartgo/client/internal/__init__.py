"""What producers and consumers are built of; applications import from L{smartgo} alone."""

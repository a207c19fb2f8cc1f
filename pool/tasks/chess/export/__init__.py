"""From a network's integers to its file: written whole, read back, compared; its first layer's pairs put in order."""

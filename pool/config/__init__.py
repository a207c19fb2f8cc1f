"""The settings of a run: their keys and meanings, and how they are read, changed and listed. Free of torch."""

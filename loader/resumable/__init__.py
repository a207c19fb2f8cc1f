"""For commands that work long: an output that is whole or absent, and work that goes on where it stopped."""

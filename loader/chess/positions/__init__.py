"""Files of positions, whatever their format: opened, read, verified, written."""

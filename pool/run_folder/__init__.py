"""Reads and writes files in a run's folder. Files are written as a whole and read strictly. Free of torch."""

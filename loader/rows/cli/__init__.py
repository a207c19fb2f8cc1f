"""The part of rows in the program `loader`."""

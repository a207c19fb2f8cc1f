"""File formats of rows of numbers and features, a package each."""

"""File formats of rows of numbers and features, a package each."""

DEFAULT = "svmlight"  # of an empty file

"""File formats of rows of numbers and features, a package each."""

DEFAULT = "svmlight"  # format of an empty file

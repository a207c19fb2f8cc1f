"""File formats of chess positions, a package each."""

DEFAULT = "binpack"  # of an empty file

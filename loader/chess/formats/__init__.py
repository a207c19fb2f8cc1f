"""File formats of chess positions. Each is a package."""

DEFAULT = "binpack"  # the format that an empty file is taken for

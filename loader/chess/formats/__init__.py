"""File formats of chess positions, a package each."""

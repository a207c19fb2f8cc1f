"""The tasks that come with the pool, a package each, found by name."""

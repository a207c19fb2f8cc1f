"""The tasks that come with the pool, each in a package of its own."""

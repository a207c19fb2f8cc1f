"""Files by name: how what a user has written becomes a path, what may be opened, whether a file has changed."""

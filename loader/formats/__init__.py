"""What a file format is, and how one is found by its name or by a file's content."""

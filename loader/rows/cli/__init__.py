"""What the program `loader` can do with files of rows."""

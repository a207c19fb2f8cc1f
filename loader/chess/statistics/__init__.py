"""Statistics of files of positions: counted, as text and in pictures."""

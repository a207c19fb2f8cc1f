"""Statistics of files of positions: counting, and output as text, JSON and pictures."""

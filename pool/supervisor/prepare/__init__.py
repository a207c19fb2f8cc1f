"""The steps before a run: its files are found, compared and planned, its memory checked and reserved."""

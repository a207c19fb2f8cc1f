"""What happens before a run: its files found, compared and planned, its memory checked and reserved."""

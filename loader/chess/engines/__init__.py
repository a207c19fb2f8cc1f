"""UCI engines: running them as processes, playing games with them, and scoring positions with them."""

"""UCI engines: run as processes, made to play games, asked for scores."""

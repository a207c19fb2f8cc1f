"""What a GPU makes of it: `make gpu-bench`."""

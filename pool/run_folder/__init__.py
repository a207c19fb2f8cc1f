"""Files of a run's folder: whole or absent, read strictly. Free of torch."""

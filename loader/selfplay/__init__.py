"""Training data by self-play of any UCI engine: what `loader generate` does."""

"""The commands of `loader` that only chess positions have."""

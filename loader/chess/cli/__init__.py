"""Commands of `loader` that exist only for chess positions."""

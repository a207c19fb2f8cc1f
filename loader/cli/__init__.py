"""The commands of `loader`, a module each."""

"""The commands of `loader`, one module a group."""

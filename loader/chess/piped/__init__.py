"""Positions that are read once, in order: from a pipe, or on their way to one."""

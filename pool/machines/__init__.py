"""Coordinates a run on several machines: which take part, with which step they begin together, how they reach one
another."""

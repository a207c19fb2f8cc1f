"""Computes the networks of a run in a worker: a single network, or the members of an ensemble."""

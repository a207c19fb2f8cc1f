"""Loads the networks in a checkpoint, chooses among the members of an ensemble, and exports them."""

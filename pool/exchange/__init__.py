"""Gradients from workers to the coordinator, weights back: one interface, an implementation for each kind of memory."""

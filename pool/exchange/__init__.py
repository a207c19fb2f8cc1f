"""Carries gradients from workers to the coordinator and weights back. One interface has an implementation for each kind
of memory."""

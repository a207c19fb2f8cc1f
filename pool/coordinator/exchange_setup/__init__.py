"""Connects the coordinator to the memory in which it exchanges gradients and weights with the workers."""

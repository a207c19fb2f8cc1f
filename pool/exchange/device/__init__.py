"""Exchanges gradients and weights through memory of the coordinator's accelerators, which workers on them use
directly."""

"""Exchanges gradients and weights through shared memory of the host: gradient slots and two versions of the weights."""

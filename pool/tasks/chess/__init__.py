"""Code that the tasks for chess share: integer networks, positions, kernels, training. It is no task itself."""

"""The ground of the tasks for chess, and no task itself: networks in integers, positions, kernels, training."""

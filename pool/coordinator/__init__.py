"""The coordinator: adds gradients up, runs the optimizer, publishes weights, keeps the books."""

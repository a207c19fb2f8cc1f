"""The coordinator: adds gradients up, runs the optimizer, publishes weights, decides who computes what."""

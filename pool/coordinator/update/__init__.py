"""How a bucket (parameters that are stepped together) gets from its gradients to its next version."""

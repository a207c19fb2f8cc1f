"""How a bucket gets from its gradients to its next version: one object a bucket, chosen once."""

"""The worker process: computes whole batches on one device, and hands over their gradients."""

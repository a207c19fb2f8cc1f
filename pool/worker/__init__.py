"""A worker: one device; whole batches in, gradients out."""

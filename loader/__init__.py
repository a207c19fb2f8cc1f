"""Files to sparse batches in given memory: the loader library. Knows nothing of the pool."""

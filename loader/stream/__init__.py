"""The stream of batches: which files it reads in which order, and what a batch looks like in memory."""

"""What a batch is, and batches in memory of this process."""

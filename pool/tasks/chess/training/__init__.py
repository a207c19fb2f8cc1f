"""What the tasks for chess share in training: loss, the batches that they need, fake quantization."""

"""What is trained: model, loss, export. One package per task, found by name."""

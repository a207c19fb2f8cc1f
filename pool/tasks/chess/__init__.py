"""What the tasks for chess share: the loss, positions, `pool eval`, rounding. No task itself."""

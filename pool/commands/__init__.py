"""The commands of `pool`, one module each; those of a task lie with the task."""

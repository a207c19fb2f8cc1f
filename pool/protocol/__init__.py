"""What processes may say to each other, and how it becomes bytes."""

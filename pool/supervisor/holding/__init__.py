"""What the supervisor holds for a run: its folder, its memory, logs, signals, and what the machine has left."""

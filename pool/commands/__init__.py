"""The commands of `pool`, one module each. Those of a task are in the task's folder."""

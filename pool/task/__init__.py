"""The interface of a task (what a run trains), and how a task is found by name, made and compared."""

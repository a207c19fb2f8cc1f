"""What a task is: its interface, how it is found by name, made and compared."""

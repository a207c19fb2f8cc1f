"""Tasks: their interface, how it is found by name, made and compared."""

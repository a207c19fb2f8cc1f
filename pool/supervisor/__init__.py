"""The supervisor: makes the memory, starts the others, watches them, shows the run to its user. No torch."""

"""Resources that the supervisor owns for a run: its folder, memory, logs and signals."""

"""Implements the supervisor: reserves the run's memory, starts and watches the other processes, shows the run. No
torch."""

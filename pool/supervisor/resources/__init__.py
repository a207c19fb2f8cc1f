"""Holds the resources of the supervisor: run folder, memory, logs, signals."""

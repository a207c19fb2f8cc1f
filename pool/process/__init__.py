"""Starts the processes of a run, gives each its settings, and ends each with the supervisor. Free of torch and of
roles."""

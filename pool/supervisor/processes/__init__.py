"""Starts and ends the supervisor's child processes, and waits for them."""

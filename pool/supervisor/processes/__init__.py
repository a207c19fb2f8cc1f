"""The processes that the supervisor starts and waits for."""

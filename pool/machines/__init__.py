"""A run on several machines: who is there, with which step they begin together, how they reach one another."""

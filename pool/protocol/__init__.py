"""The messages that processes may send each other, and how they become bytes."""

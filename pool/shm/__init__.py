"""Memory that processes share: anonymous memory, inherited by descriptor (I6)."""

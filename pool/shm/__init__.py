"""Memory that processes share: anonymous memory, inherited by file descriptor (I6)."""

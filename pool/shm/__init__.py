"""What processes share: anonymous memory, inherited by descriptor (I6)."""

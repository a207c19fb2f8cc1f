"""What the coordinator decides, and from what it hears: pure, driven by events, without sockets, torch or clock."""

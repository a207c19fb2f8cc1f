"""The coordinator's decisions, from the events that it hears: pure, without sockets, torch or clock."""

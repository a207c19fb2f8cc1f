"""Files as bytes: names, identity and compression; files that are written as a whole, and work that can be resumed."""

"""Files as bytes: their names, identity and compression, written whole or resumed."""

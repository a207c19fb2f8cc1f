"""The family of records `rows`: numbers and lists of features, of no game at all."""

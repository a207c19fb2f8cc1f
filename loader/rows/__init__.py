"""The family of records `rows`: numbers and lists of features, from any field but games."""

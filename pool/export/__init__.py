"""Networks that a checkpoint holds: loaded, chosen among the members of an ensemble, exported."""

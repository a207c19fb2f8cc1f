"""`loader rescore`: the scores of a file of positions, made anew by a UCI engine."""

"""The networks that a run trains, as a worker computes them: one, or the members of an ensemble."""

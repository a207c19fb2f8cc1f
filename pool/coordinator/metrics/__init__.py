"""The numbers of a run, made once a step, and the sinks that they go to."""

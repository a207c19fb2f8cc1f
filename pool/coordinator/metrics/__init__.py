"""The numbers of a run, such as losses and speeds, made once a step, and the sinks (files and services) that they are
written to."""

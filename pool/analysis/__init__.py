"""Analyses of runs: reading and comparing run folders, sweeps, speed, learning-rate tests, and predictions of trained
networks. Free of torch but for `predict` and `untrained`."""

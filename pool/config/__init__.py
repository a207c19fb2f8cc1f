"""The settings of a run: what keys there are, what they mean, how they are read, changed and shown. Free of torch."""

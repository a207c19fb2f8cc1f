"""The coordinator process: decides which worker computes which batch, adds gradients up, steps the optimizer, and
publishes new versions of the weights."""

"""Trains networks with a sparse first layer on every GPU of a workstation."""

"""Decides who computes which batch, and when a step is complete. Pure: no sockets, no torch, no clock."""

"""Devices with memory of their own: what a worker does with them that torch has no common name for."""

"""Arithmetic of the hot path, with one implementation for each kind of device."""

"""Arithmetic of training steps, with one implementation for each kind of device."""

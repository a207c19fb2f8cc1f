"""Gradients on their way: which parameters travel together, and where each lies."""

"""Recipes: configs with stages, each of which is a run that begins where another one ended."""

"""Recipes: configs with several stages, each of which is a run that starts from the result of another one."""

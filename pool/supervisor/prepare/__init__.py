"""Prepares a run before it starts: finds and compares its files, plans it, checks and reserves its memory."""

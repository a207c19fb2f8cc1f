"""Runs of real processes that are made to fail, and what must be so all the same (docs/reliability.md)."""

"""Runs that are made to fail, and bugs put in on purpose: what must be so all the same (docs/reliability.md)."""

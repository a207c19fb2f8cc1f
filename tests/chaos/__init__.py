"""Runs that are made to fail, and bugs put in on purpose; what must hold: docs/explanation/reliability.md."""

"""`loader` as its user calls it, in the test's own process."""

from __future__ import annotations

from loader.cli.main import main


def run_loader(*arguments: object) -> int:
    """Returns the command's exit code; what it prints is the test's to capture."""
    return main([str(argument) for argument in arguments])

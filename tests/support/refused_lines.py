"""Files of lines that are damaged: what a command says, and what is left of a file that is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError


def said_of(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the one line in which a command refuses a file."""
    capsys.readouterr()
    assert main(["dump", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def up_to_damage(path: Path) -> tuple[list[Entry], str | None]:
    """Returns the entries before the damage of a file, and the error if there is any."""
    read: list[Entry] = []
    said: str | None = None
    try:
        read.extend(entries(path))
    except DataError as error:
        said = str(error)
    assert said is None or (said.startswith(f"{path}: ") and "\n" not in said)
    return read, said

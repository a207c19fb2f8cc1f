"""Checks the endings of outputs' names, by which other programs know what a file is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader.errors import UsageError


def check_output_ending(path: Path, content: str, endings: Sequence[str]) -> str:
    """Returns the ending of the name of a file to be written, in lower case; empty if the name has none.

    `content`: what is written, in the plural. `endings`: those that are allowed. Raises UsageError for any other
    ending, by which programs would take the file for one of another kind.
    """
    ending = path.suffix.lower()
    if not ending or ending in endings:
        return ending
    listed = endings[-1]
    if len(endings) > 1:
        listed = f"{', '.join(endings[:-1])} or {listed}"
    raise UsageError(
        f"{path}: {content} end in {listed}, and {path.suffix} is something else; name it "
        f"{path.with_suffix(endings[0]).name}"
    )

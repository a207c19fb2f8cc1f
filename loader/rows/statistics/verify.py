"""Verifies a file of rows: whether it can be read to its end."""

from __future__ import annotations

from collections.abc import Iterable

from loader.errors import DataError
from loader.formats.file_tools import VerifyResult


def verify_rows(path: str, counts: Iterable[tuple[int, DataError | None]]) -> VerifyResult:
    """Counts the rows of a file up to the first damage, and returns the result for `loader verify`. `counts`: for
    each part of the file the number of rows, and the fault that follows them or None. Iterating over it may raise
    DataError."""
    entries = 0
    try:
        for count, error in counts:
            entries += count
            if error is not None:
                raise error
    except DataError as error:
        return VerifyResult(path, False, entries, error.offset, error.reason)
    return VerifyResult(path, True, entries)

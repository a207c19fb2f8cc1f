"""A format of rows of a user's own: JSON lines `[label, {"FIELD": {"NUMBER": VALUE}}]`, in chunks of LINES lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from loader import DataError, DataFile, Place, Rows

FAMILY = "rows"
SUFFIXES = (".jsonl",)
LINES = 40


class JsonReader:
    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        lines = [(file, line) for file in files for line in file.path.read_text().splitlines()]
        self._chunks = [lines[first : first + LINES] for first in range(0, len(lines), LINES)]

    @property
    def name(self) -> str:
        return str(self._files[0].path)

    @property
    def num_chunks(self) -> int:
        return len(self._chunks)

    def place(self, chunk: int) -> Place:
        return Place(self._chunks[chunk][0][0].path, chunk)

    def read(self, chunk: int) -> Iterator[Rows]:
        lines = self._chunks[chunk]
        for half in (lines[: LINES // 2], lines[LINES // 2 :]):
            try:
                parsed = [json.loads(line) for _, line in half]
            except ValueError as error:
                raise DataError(half[0][0].path, str(error)) from None
            names = parsed[0][1] if parsed else ()
            yield Rows(
                {"label": np.array([row[0] for row in parsed])},
                {name: _columns([row[1][name] for row in parsed]) for name in names},
            )


def _columns(rows: Sequence[dict[str, float]]) -> tuple[Any, Any, Any]:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    features = np.array([int(number) for row in rows for number in row], np.int64)
    return offsets, features, np.array([value for row in rows for value in row.values()], np.float64)


def recognizes(head: bytes) -> bool:
    return head.startswith(b"[")


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> JsonReader:  # noqa: ARG001
    return JsonReader(files)

"""The fields of a batch while its memory is the reader's: asked for later, they say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from sparsepool.errors import SparsepoolError

T = TypeVar("T")


class LentFields(Mapping[str, T]):
    """Fields by name, until they are taken back."""

    def __init__(self, fields: Mapping[str, T], batch: int) -> None:
        self._fields: Mapping[str, T] | None = fields
        self._batch = batch

    def take_back(self) -> None:
        self._fields = None

    def __getitem__(self, name: str) -> T:
        return self._there()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._there())

    def __len__(self) -> int:
        return len(self._there())

    def __repr__(self) -> str:
        return "{taken back}" if self._fields is None else f"{{{', '.join(self._fields)}}}"

    def _there(self) -> Mapping[str, T]:
        if self._fields is None:
            raise SparsepoolError(
                f"batch {self._batch} is used after the next one was asked for, or the stream closed: its memory holds "
                "another batch by now; keep a copy instead: batch.copy()"
            )
        return self._fields

"""The fields of a batch whose memory the reader has borrowed. After they are revoked, using them raises an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from sparsepool.errors import SparsepoolError

T = TypeVar("T")


class BorrowedFields(Mapping[str, T]):
    """A mapping of a batch's fields by name that raises SparsepoolError after `revoke`, when their memory holds
    another batch."""

    def __init__(self, fields: Mapping[str, T], batch: int) -> None:
        self._fields: Mapping[str, T] | None = fields
        self._batch = batch

    def revoke(self) -> None:
        """Makes each later use of the fields raise SparsepoolError."""
        self._fields = None

    def __getitem__(self, name: str) -> T:
        return self._require_fields()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._require_fields())

    def __len__(self) -> int:
        return len(self._require_fields())

    def __repr__(self) -> str:
        return "{taken back}" if self._fields is None else f"{{{', '.join(self._fields)}}}"

    def _require_fields(self) -> Mapping[str, T]:
        """Returns the fields. Raises SparsepoolError if they have been revoked."""
        if self._fields is None:
            raise SparsepoolError(
                f"batch {self._batch} is used after the next one was asked for, or the stream closed: its memory holds "
                "another batch by now; keep a copy instead: batch.copy()"
            )
        return self._fields

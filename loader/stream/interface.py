"""The interface of a stream of batches: batch k is a pure function of files, settings, seed and k (I1).

The pool's feeder drives a stream. `loader.stream.data.Data.open` opens one by the name of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from loader.stream.left_out import LeftOut
from loader.stream.schema import BatchSchema


@dataclass(frozen=True)
class Cursor:
    """The place where a batch begins, right behind the one before it: enough to make it without making those before
    it."""

    batch: int = 0
    epoch: int = 0
    window: int = 0  # within the epoch
    entry: int = 0  # within the window, in shuffled order


@dataclass(frozen=True)
class Filled:
    """A finished batch: slot `slot` holds batch `batch`, which began at `cursor`."""

    slot: int
    batch: int
    cursor: Cursor
    next_cursor: Cursor


class Stream(Protocol):
    """Fills given slots with consecutive batches, on threads of its own."""

    schema: BatchSchema

    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Names the memory of the slots; called once, before anything else."""

    def seek(self, cursor: Cursor) -> None:
        """The next batch finished is the one that begins at `cursor`. All slots become the caller's again.

        Raises ValueError for what can't be a cursor of this stream; one that lies behind the end of its window,
        which only reading shows, makes `take` raise it.
        """

    def give(self, slot: int) -> None:
        """Hands a slot to the stream. Slots are filled in the order given."""

    def take(self) -> Filled | None:
        """The next finished batch, in stream order; its slot is the caller's again. None if none is finished.

        Raises DataError when the data is damaged: file, offset and what is wrong (I8). With
        data.on_bad_data = "skip", only when nothing is left.
        """

    def skipped(self) -> Sequence[LeftOut]:
        """Returns what data.on_bad_data = "skip" has left out, in stream order: of each chunk and kind once, and not
        returned before.

        It is returned at the latest with the first batch behind it.
        """

    def fileno(self) -> int:
        """A descriptor that is readable while `take` has something to return."""

    def close(self) -> None:
        """Stops the threads. Nothing is written to a slot afterwards."""


@runtime_checkable
class PassesOver(Protocol):
    """A stream that need not make each batch in order to come to the next.

    Of several machines each makes the batches that it computes, and passes over those of the others.
    """

    def pass_over(self, slot: int) -> None:
        """Hands a slot to the stream as `give` does: the batch whose turn it is is finished without being made, and the
        slot is left as it is."""


@runtime_checkable
class Compared(Protocol):
    """A stream that knows its files as chunks and compares what it reads of each.

    A chunk that has other bytes than when it was read first ends the stream with DataChangedError.
    """

    @property
    def num_chunks(self) -> int:
        """The number of chunks of all files; the same for the same files."""

    def compare_with(self, words: npt.NDArray[np.uint64]) -> None:
        """[num_chunks] words, written and compared by the stream's threads: 0 for a chunk not read yet.

        They may hold what an earlier stream of the same files has written. Called before `attach`.
        """

"""The interface of a stream of batches. Batch k is a pure function of files, settings, seed and k (I1).

The pool's feeder, the process that fills the ring of batches, drives a stream. `loader.stream.data.Data.open` opens one
by the name of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema
from loader.stream.skipped_data import SkippedData


@dataclass(frozen=True)
class Cursor:
    """The place in the stream where a batch begins. It is enough to make this batch without making the batches before
    it."""

    batch: int = 0
    epoch: int = 0
    window: int = 0  # within the epoch
    entry: int = 0  # within the window, in shuffled order


@dataclass(frozen=True)
class Filled:
    """A finished batch: slot `slot` (memory of one batch) holds batch `batch`, which begins at `cursor` in the stream.
    The next batch begins at `next_cursor`."""

    slot: int
    batch: int
    cursor: Cursor
    next_cursor: Cursor


class Stream(Protocol):
    """Fills given slots (memory of one batch each) with consecutive batches, on threads of its own."""

    schema: BatchSchema

    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Sets the memory of the slots, schema.slot_bytes each. Slots are numbered in this order from 0 on. Called
        once, before anything else."""

    def seek(self, cursor: Cursor) -> None:
        """Moves the stream: the next finished batch will be the one that begins at `cursor`. Takes back all slots from
        the stream.

        Raises ValueError for what can't be a cursor of this stream. Whether a cursor lies after the end of its window
        is only known by reading; then `take` raises the ValueError.
        """

    def give(self, slot: int) -> None:
        """Gives the memory of a slot to the stream, to be filled with the next batch. Slots are filled in the order in
        which they are given."""

    def take(self) -> Filled | None:
        """Returns the next finished batch, in the order of the stream, or None if no batch is finished. The batch's
        slot belongs to the caller again.

        Raises DataError when the data is damaged: file, offset and what is wrong (I8). With data.on_bad_data = "skip"
        it raises only when no data is left.
        """

    def skipped(self) -> Sequence[SkippedData]:
        """Returns the data that data.on_bad_data = "skip" has left out since the last call, in the order of the stream.
        Each chunk and kind of fault is returned once.

        Data left out is returned at the latest with the first batch that follows it in the stream.
        """

    def fileno(self) -> int:
        """Returns a descriptor that is readable while `take` has a batch, or an error, to return."""

    def close(self) -> None:
        """Stops the threads. Nothing is written to a slot afterwards."""


@runtime_checkable
class PassesOver(Protocol):
    """A stream that can advance past a batch without making it.

    When several machines compute a run, each makes the batches that it computes itself, and passes over the rest.
    """

    def pass_over(self, slot: int) -> None:
        """Gives a slot to the stream as `give` does, for a batch that is not needed: the next batch counts as finished,
        and the slot's memory is not written."""


@runtime_checkable
class Compared(Protocol):
    """A stream that reads its files in chunks and compares the bytes of each chunk with those of the first reading.

    A chunk whose bytes have changed ends the stream with DataChangedError.
    """

    @property
    def num_chunks(self) -> int:
        """The number of chunks in all files; always the same for the same files."""

    def compare_with(self, words: npt.NDArray[np.uint64]) -> None:
        """Sets the checksums [num_chunks] that the stream's threads write at a chunk's first reading, and compare later
        ones with. A chunk that has not been read yet has 0.

        The array may hold what an earlier stream of the same files has written. Called before `attach`.
        """

"""The loader alone: batches of files as torch tensors or numpy arrays, for a loop of one's own."""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, overload

from loader.stream.interface import Cursor, Filled, Stream
from loader.stream.left_out import LeftOut
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from loader.stream.sources import open_stream
from sparsepool.errors import SparsepoolError, one_line_errors
from sparsepool.lent_fields import LentFields
from sparsepool.settings import Files, data_config, data_files

if TYPE_CHECKING:
    from pool.nn.batch import TensorBatch

NUM_SLOTS = 8  # batches made ahead, the one in use included
B = TypeVar("B")  # TensorBatch or SparseBatch


@overload
def batches(
    files: Files = ...,
    *,
    arrays: Literal["torch"] = ...,
    seed: int = ...,
    epochs: int | None = ...,
    start: Cursor | None = ...,
    data: Mapping[str, Any] | None = ...,
    **settings: Any,
) -> Batches[TensorBatch]: ...
@overload
def batches(
    files: Files = ...,
    *,
    arrays: Literal["numpy"],
    seed: int = ...,
    epochs: int | None = ...,
    start: Cursor | None = ...,
    data: Mapping[str, Any] | None = ...,
    **settings: Any,
) -> Batches[SparseBatch]: ...
def batches(
    files: Files = (),
    *,
    arrays: Literal["torch", "numpy"] = "torch",
    seed: int = 0,
    epochs: int | None = 1,
    start: Cursor | None = None,
    data: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Batches of files, made by native threads ahead of a `for` loop.

    files: a file, a pattern with * and ?, or several of them, in order; or mappings of files and share, which are mixed
        as those of data.train; none for a source that reads none.
    arrays: "torch": a batch is a `pool.TensorBatch`; "numpy": the same as arrays, and torch is not imported. Either has
        `number`, `sparse[name]` (offsets uint32 [bags + 1], features uint16 or uint32 [active], and the same by
        columns), `dense[name]` ([batch_size], in the schema's dtype), `bucket_offsets` ([buckets + 1]) and `copy()`.
    seed: of shuffling and random filters. Batch k is a function of files, settings and seed (I1).
    epochs: passes over the files that one `for` makes; the next `for` goes on behind them, in another order. None: no
        end. With tail = "flow" the last batch of a pass is filled up from the next pass. A source that is made up as it
        goes has one endless pass.
    start: where to begin: `cursor` of an earlier stream of the same files and settings.
    data, settings: keys of [data] (source, batch_size, threads, shuffle, window_chunks, ...) and of the source's own
        section (features, filters, ...), as in a config.

    Raises SparsepoolError.
    """
    if arrays not in ("torch", "numpy"):
        raise SparsepoolError(f"arrays: must be 'torch' or 'numpy', not {arrays!r}")
    if epochs is not None and epochs < 1:
        raise SparsepoolError(f"epochs: must be 1 or more, or None for no end, not {epochs}")
    with one_line_errors():
        config = data_config({**(data or {}), **settings})
        stream = open_stream(config, data_files(files), seed)
        make: Callable[[SparseBatch], Any] = _tensors if arrays == "torch" else _as_they_are
        return Batches(stream, make, epochs, start, drops_tail=config.tail == "drop")


class Batches(Generic[B]):
    """An iterator's source and a context manager; `batches` makes it.

    A batch's arrays are views of memory that the native threads write to again: they live until the next batch is asked
    for. After that `sparse` and `dense` raise; an array that was taken out of them before shows what is written there.
    One thread reads at a time; `close` may come from any.
    """

    def __init__(
        self,
        stream: Stream,
        make: Callable[[SparseBatch], B],
        epochs: int | None,
        start: Cursor | None = None,
        *,
        drops_tail: bool = False,
    ) -> None:
        """Owns `stream` from now on."""
        self.schema = stream.schema
        self._stream = stream
        self._make = make
        self._epochs = epochs
        self._drops_tail = drops_tail
        self._process = os.getpid()
        self._closing = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._free = weakref.finalize(self, _free, stream, self._closing)
        self._reading = threading.Lock()
        self._closed = False
        self._slots = allocate_slots(stream.schema, NUM_SLOTS)
        self._next: Filled | None = None  # finished, and not given to the reader yet
        self._lent: tuple[int, list[LentFields[Any]]] | None = None  # slot of the reader's batch, and its fields
        self._cursor = start or Cursor()
        self._poll = select.poll()
        try:
            stream.attach(self._slots)
            if start is not None:
                stream.seek(start)
            for slot in range(NUM_SLOTS):
                stream.give(slot)
            for descriptor in (stream.fileno(), self._closing):
                self._poll.register(descriptor, select.POLLIN)
        except BaseException:
            self._free()
            raise

    @property
    def cursor(self) -> Cursor:
        """The place where the next batch begins: `start` of a stream that goes on from here."""
        return self._cursor

    def skipped(self) -> Sequence[LeftOut]:
        """With on_bad_data = "skip": what has been left out, of each chunk and kind once, and not returned before."""
        with self._used():
            return self._stream.skipped()

    def __iter__(self) -> Iterator[B]:
        """One pass, or as many as `epochs` says. Raises SparsepoolError for damaged data and for a closed stream."""
        end: int | None = None
        while True:
            with self._used():
                filled = self._ahead()
                epoch = self._epoch_of(filled)
                end = epoch + self._epochs if end is None and self._epochs is not None else end
                if end is not None and epoch >= end:
                    return
                batch = self._lend(filled)
            yield batch

    def close(self) -> None:
        """Stops the threads and gives the memory back; a reader in another thread gets an error."""
        if not self._free.alive:
            return
        self._closed = True
        os.eventfd_write(self._closing, 1)
        with self._reading:
            self._take_back()
            self._free()
            self._slots = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise SparsepoolError("the stream was opened in another process, whose threads are not here: open one here")
        if not self._reading.acquire(blocking=False):
            raise SparsepoolError("another thread is reading this stream: open one for each thread")
        try:
            self._check_open()
            with one_line_errors():
                yield
        finally:
            self._reading.release()

    def _check_open(self) -> None:
        if self._closed:
            raise SparsepoolError("the stream is closed")

    def _ahead(self) -> Filled:
        """The next finished batch."""
        while self._next is None:
            if (taken := self._stream.take()) is None:
                self._poll.poll()
                self._check_open()
            self._next = taken
        return self._next

    def _epoch_of(self, filled: Filled) -> int:
        """The pass that a batch belongs to: that of its first sample. A dropped tail lies between cursor and sample."""
        if not self._drops_tail:
            return filled.cursor.epoch
        then = filled.next_cursor
        at_the_end = then.window == then.entry == 0  # right behind the last entry is the next epoch's beginning
        return then.epoch - at_the_end

    def _lend(self, filled: Filled) -> B:
        self._next = None
        if (slot := self._take_back()) is not None:
            self._stream.give(slot)
        self._cursor = filled.next_cursor
        batch: Any = self._make(SparseBatch.view(self.schema, self._slots[filled.slot]))
        sparse: LentFields[Any] = LentFields(batch.sparse, batch.number)
        dense: LentFields[Any] = LentFields(batch.dense, batch.number)
        self._lent = filled.slot, [sparse, dense]
        lent: B = replace(batch, sparse=sparse, dense=dense)
        return lent

    def _take_back(self) -> int | None:
        if self._lent is None:
            return None
        slot, fields = self._lent
        self._lent = None
        for each in fields:
            each.take_back()
        return slot


def _as_they_are(batch: SparseBatch) -> SparseBatch:
    return batch


def _tensors(batch: SparseBatch) -> TensorBatch:
    from pool.nn.batch import TensorBatch  # late: numpy arrays are given without torch

    return TensorBatch.from_numpy(batch)


def _free(stream: Stream, closing: int) -> None:
    stream.close()
    os.close(closing)

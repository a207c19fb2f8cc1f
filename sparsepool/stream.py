"""The loader alone: batches of files as torch tensors or numpy arrays, for a training loop of your own."""

from __future__ import annotations

import os
import select
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar, overload

from loader.errors import DataError
from loader.stream.data import open_stream
from loader.stream.interface import Cursor, Filled, Stream
from loader.stream.schema import SparseBatch
from loader.stream.skipped_data import SkippedData
from loader.stream.slots import allocate_slots
from sparsepool.borrowed_fields import BorrowedFields
from sparsepool.errors import SparsepoolError, translate_errors
from sparsepool.safe_import import import_without_signals
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
    """Opens a stream of batches from files, made by native threads ahead of a `for` loop.

    files: a file, a pattern with * and ?, or several of them, in order; or mappings of files and share, which are mixed
        as those of data.train; none for a source that reads none.
    arrays: "torch": a batch is a `pool.TensorBatch`; "numpy": the same as arrays, and torch is not imported. Either has
        `number`, `sparse[name]` (offsets uint32 [bags + 1], features uint16 or uint32 [active], and the same by
        columns), `dense[name]` ([batch_size], in the schema's dtype), `bucket_offsets` ([buckets + 1]) and `copy()`.
    seed: of shuffling and random filters. Batch k is a function of files, settings and seed (I1).
    epochs: passes over the files that one `for` makes; the next `for` goes on after them, in another order. None: no
        end. With tail = "flow" the last batch of a pass is filled up from the next pass. A source that makes up its
        samples has one endless pass.
    start: where to begin: `cursor` of an earlier stream of the same files and settings.
    data, settings: keys of [data] (source, batch_size, threads, shuffle, window_chunks, ...) and of the source's own
        section (features, filters, ...), as in a config.

    Raises SparsepoolError.
    """
    if arrays not in ("torch", "numpy"):
        raise SparsepoolError(f"arrays: must be 'torch' or 'numpy', not {arrays!r}")
    if epochs is not None and epochs < 1:
        raise SparsepoolError(f"epochs: must be 1 or more, or None for no end, not {epochs}")
    with translate_errors():
        if arrays == "torch":
            import_without_signals("pool.nn.batch")
        config = data_config({**(data or {}), **settings})
        stream = open_stream(config, data_files(files), seed)
        convert: Callable[[SparseBatch], Any] = _to_tensors if arrays == "torch" else _keep_arrays
        return Batches(stream, convert, epochs, start, drops_tail=config.tail == "drop")


class Batches(Generic[B]):
    """A stream of batches, to iterate over, which `batches` makes. A context manager, which closes the stream.

    A batch's arrays are views of memory that the native threads write to again: they are valid until the next batch is
    asked for. After that `sparse` and `dense` raise; an array that was taken out of them before shows what is written
    there. One thread reads at a time; `close` may be called by any thread, also from a signal's handler. In a forked
    process the stream can't be read, and closing it there does nothing to the parent's.
    """

    def __init__(
        self,
        stream: Stream,
        convert: Callable[[SparseBatch], B],
        epochs: int | None,
        start: Cursor | None = None,
        *,
        drops_tail: bool = False,
    ) -> None:
        """Takes over `stream`, which `close` will close. `convert`: makes the batch that is returned from the views of
        a slot."""
        self.schema = stream.schema
        self._stream = stream
        self._convert = convert
        self._epochs = epochs
        self._drops_tail = drops_tail
        self._process = os.getpid()
        self._closing = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._closing)  # not in `close`: another thread may still use the number
        self._close_stream = weakref.finalize(self, _close_in_process, stream, self._process)
        self._reader: dict[None, int] = {}  # the thread that is in a call; a dict for its atomic `setdefault`
        self._is_interrupted = False  # an exception ended a call while it handled slots
        self._is_closed = False
        self._slots = allocate_slots(stream.schema, NUM_SLOTS)
        self._next_batch: Filled | None = None  # finished but not yet returned
        self._borrowed: _BorrowedBatch | None = None  # the reader's batch
        self._cursor = start or Cursor()
        self._poll = select.poll()
        try:
            stream.attach(self._slots)
            if start is not None:
                stream.seek(start)
            self._give_all_slots()
            for descriptor in (stream.fileno(), self._closing):
                self._poll.register(descriptor, select.POLLIN)
        except BaseException:
            self._close_stream()
            raise

    @property
    def cursor(self) -> Cursor:
        """Returns the place where the next batch begins, as `start` of a stream that continues from here."""
        return self._cursor

    def skipped(self) -> Sequence[SkippedData]:
        """Returns what on_bad_data = "skip" has left out since the last call. Each chunk and kind of fault is returned
        once."""
        with self._claimed():
            return self._stream.skipped()

    def __iter__(self) -> Iterator[B]:
        """Yields the batches of one pass, or of as many as `epochs` says. Raises SparsepoolError for damaged data and
        for a closed stream."""
        first_epoch: int | None = None
        while True:
            with self._claimed():
                filled = self._wait_for_next()
                epoch = self._epoch_of(filled)
                if first_epoch is None:
                    first_epoch = epoch
                if self._epochs is not None and epoch >= first_epoch + self._epochs:
                    return
                with self._handling_slots():
                    batch = self._lend(filled)
            yield batch

    def close(self) -> None:
        """Stops the threads and frees the memory; a reader in another thread gets an error.

        Never waits for a reader, who may be the caller itself: a call in progress frees the memory when it ends.
        """
        if os.getpid() != self._process:
            return
        self._is_closed = True
        os.eventfd_write(self._closing, 1)
        reader = self._reader.get(None)
        if reader is None or not self._is_in_call(reader):
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Claims the stream for this thread during the block, and turns errors into SparsepoolErrors. Raises
        SparsepoolError in a forked process, for a closed stream, and while another thread reads."""
        if os.getpid() != self._process:
            raise SparsepoolError("the stream was opened in another process, whose threads are not here: open one here")
        thread = threading.get_ident()
        self._claim(thread)
        try:
            self._check_open()
            with translate_errors():
                if self._is_interrupted:
                    self._recover_slots()
                yield
        finally:
            if self._reader.get(None) == thread:
                self._reader.pop(None, None)
            if self._is_closed:
                self._release()

    def _claim(self, thread: int) -> None:
        """Records that this thread is reading. Raises SparsepoolError if another thread is in a call. A record that an
        exception has left behind is overwritten."""
        reader = self._reader.setdefault(None, thread)
        if reader == thread:
            return
        if self._is_in_call(reader):
            raise SparsepoolError("another thread is reading this stream: open one for each thread")
        self._reader[None] = thread

    def _is_in_call(self, thread: int) -> bool:
        """Returns whether that thread is executing a call of this stream."""
        frame = sys._current_frames().get(thread)
        while frame is not None:
            if frame.f_code in _CALLS and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _recover_slots(self) -> None:
        """Moves the stream back to where the next batch begins, after a call was interrupted while it handled slots."""
        self._revoke_batch()
        self._next_batch = None
        self._stream.seek(self._cursor)
        self._give_all_slots()
        self._is_interrupted = False

    def _give_all_slots(self) -> None:
        for slot in range(NUM_SLOTS):
            self._stream.give(slot)

    def _release(self) -> None:
        """Closes the stream and frees the slots."""
        self._revoke_batch()
        self._close_stream()
        self._slots = []

    def _check_open(self) -> None:
        if self._is_closed:
            raise SparsepoolError("the stream is closed")

    def _wait_for_next(self) -> Filled:
        """Returns the next finished batch, and waits for it if necessary. The batch stays the next one until it is
        lent."""
        while self._next_batch is None:
            with self._handling_slots():
                self._next_batch = self._stream.take()
            if self._next_batch is None:
                self._poll.poll()
                self._check_open()
        return self._next_batch

    @contextmanager
    def _handling_slots(self) -> Iterator[None]:
        """Marks the part of a call in which an exception of a signal's handler would lose a slot or a batch."""
        self._is_interrupted = True
        try:
            yield
        except (DataError, ValueError):  # raised by the stream, which keeps its slots in order
            self._is_interrupted = False
            raise
        self._is_interrupted = False

    def _epoch_of(self, filled: Filled) -> int:
        """Returns the number of the pass to which a batch's first sample belongs. With tail = "drop" the cursor may lie
        before the dropped samples of the previous pass, so the end of the batch decides."""
        if not self._drops_tail:
            return filled.cursor.epoch
        end = filled.next_cursor
        # After the last entry of an epoch the cursor is at the start of the next epoch.
        ends_epoch = end.window == 0 and end.entry == 0
        return end.epoch - 1 if ends_epoch else end.epoch

    def _lend(self, filled: Filled) -> B:
        """Returns the batch with its fields as BorrowedFields, and gives the slot of the previous batch back to the
        stream."""
        self._next_batch = None
        free_slot = self._revoke_batch()
        if free_slot is not None:
            self._stream.give(free_slot)
        self._cursor = filled.next_cursor
        batch: Any = self._convert(SparseBatch.view(self.schema, self._slots[filled.slot]))
        sparse: BorrowedFields[Any] = BorrowedFields(batch.sparse, batch.number)
        dense: BorrowedFields[Any] = BorrowedFields(batch.dense, batch.number)
        self._borrowed = _BorrowedBatch(filled.slot, sparse, dense)
        lent: B = replace(batch, sparse=sparse, dense=dense)
        return lent

    def _revoke_batch(self) -> int | None:
        """Makes the fields of the reader's batch raise from now on. Returns the batch's slot, or None if the reader has
        no batch."""
        borrowed, self._borrowed = self._borrowed, None
        if borrowed is None:
            return None
        borrowed.sparse.revoke()
        borrowed.dense.revoke()
        return borrowed.slot


class _BorrowedBatch(NamedTuple):
    """The batch that the reader has now."""

    slot: int
    sparse: BorrowedFields[Any]
    dense: BorrowedFields[Any]


def _keep_arrays(batch: SparseBatch) -> SparseBatch:
    return batch


def _to_tensors(batch: SparseBatch) -> TensorBatch:
    from pool.nn.batch import TensorBatch  # late: arrays="numpy" works without torch

    return TensorBatch.from_numpy(batch)


def _close_in_process(stream: Stream, process: int) -> None:
    """Closes a stream, but only in the process that has opened it: a forked process, which ends as well, has none of
    its threads."""
    if os.getpid() == process:
        stream.close()


_CALLS = frozenset(method.__code__ for method in (Batches.__iter__, Batches.skipped))

"""A stream of batches that notices when the run's data files change, and reports an error of the source's own code as
one line.

The files are checked when the stream is opened, at each seek (a validation begins with one), and at the end of each
epoch. A source that compares its chunks gets the checksums of all chunks that were read before, also by an earlier
feeder.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from loader.errors import DataChangedError, DataError
from loader.files.identity import check_unchanged
from loader.plugins.error_text import PluginError, format_error_with_location
from loader.stream.data import Data
from loader.stream.interface import Compared, Cursor, Filled, PassesOver, Stream
from loader.stream.schema import BatchSchema
from loader.stream.single_pass import SinglePass
from loader.stream.skipped_data import SkippedData
from pool.metrics.validation_pass import ValidationPass
from pool.process.start import FeederStart
from pool.protocol.messages import Purpose
from pool.shm.memory import Memory

log = logging.getLogger(__name__)


class WatchedStream:
    """Opens a stream of batches, and passes on the calls of `Stream` and `PassesOver`. Any call raises DataError,
    DataChangedError or PluginError."""

    def __init__(self, start: FeederStart, memory: Memory, purpose: Purpose) -> None:
        """Opens the stream of batches for training or validation, and gives it the ring's memory. Raises DataError,
        DataChangedError, PluginError."""
        self._data = start.data[purpose]
        with self._one_line():
            try:
                self._stream = _opened(self._data, start.validation)
            finally:
                self._look()  # or a file that has been cut since the run began would be reported as damaged
            for stream in self._stream.streams if isinstance(self._stream, SinglePass) else (self._stream,):
                if isinstance(stream, Compared):
                    self._compare(stream, memory.chunk_checksums()[purpose])
            self._stream.attach(memory.rings[purpose])

    @property
    def schema(self) -> BatchSchema:
        return self._stream.schema

    def seek(self, cursor: Cursor) -> None:
        self._look()
        with self._one_line():
            self._stream.seek(cursor)

    def give(self, slot: int) -> None:
        with self._one_line():
            self._stream.give(slot)

    def pass_over(self, slot: int) -> None:
        """Gives the stream a slot for a batch that this machine does not compute. A source that can leave the batch out
        does so; any other makes it."""
        with self._one_line():
            if isinstance(self._stream, PassesOver):
                self._stream.pass_over(slot)
            else:
                self._stream.give(slot)

    def take(self) -> Filled | None:
        with self._one_line():
            filled = self._stream.take()
        if filled is not None and filled.next_cursor.epoch > filled.cursor.epoch:
            self._look()
        return filled

    def skipped(self) -> Sequence[SkippedData]:
        with self._one_line():
            return self._stream.skipped()

    def fileno(self) -> int:
        return self._stream.fileno()

    def _look(self) -> None:
        """Checks the data files. Raises DataChangedError if they are not what they were when the run began."""
        check_unchanged(self._data.files, may_grow=self._data.config.may_grow)

    def _compare(self, stream: Compared, words: npt.NDArray[np.uint64]) -> None:
        """Lets a stream compare the chunks of its files with what was read of them before, to notice changed files.
        `words`: a checksum for each chunk, in shared memory; 0 for a chunk that was not read yet. Raises
        DataChangedError if the number of chunks has changed."""
        if stream.num_chunks != words.size:
            names = ", ".join(str(file.path) for file in self._data.files[:3])
            raise DataChangedError(names, f"{stream.num_chunks} chunks now, {words.size} when the run began")
        stream.compare_with(words)

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turns an error of the source's code into a PluginError that names the source. Such an error may or may not
        come again after a restart."""
        try:
            yield
        except (DataError, MemoryError):
            raise
        except Exception as error:
            raise PluginError(
                f"data.source: {self._data.config.source}: {format_error_with_location(error)}"
            ) from error


def _opened(data: Data, validation: ValidationPass) -> Stream:
    """Opens a stream of batches: one that ends after a whole pass, for a validation over all data, else an endless
    one."""
    if data.validation and validation.ends:
        return SinglePass(data, validation.samples)
    return data.open()

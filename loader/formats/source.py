"""The base class of sources whose samples lie in files. It opens, splits and mixes the files, counts their samples, and
describes where a batch comes from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, NamedTuple

from loader import _native
from loader.files.compression import describe_compression
from loader.files.identity import DataFile
from loader.formats.format import GrowingFormat, Reader
from loader.formats.readers import format_name, load_family_format, resolve_file_format
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.interface import Cursor
from loader.stream.mixture_rates import OpenedComponent, Portion, estimate_portions, measure_components, open_components
from loader.stream.native_stream import NativeStream, pipeline_settings
from loader.stream.schema import BatchSchema
from loader.stream.source import Source


def count_pass_samples(
    config: DataConfig, source: _native.Source, seed: int, *, validation: bool, look: Callable[[], object]
) -> int:
    """Counts the samples of the first pass of a stream, on several threads. Calls `look` after each chunk; an exception
    of `look` ends the count. Raises DataError, ValueError."""
    settings = pipeline_settings(config, seed, validation=validation)
    # Several threads would decode again and again what can only be decoded in order.
    num_threads = 1 if source.in_file_order else config.num_threads
    pool = ThreadPoolExecutor(num_threads)
    total = 0
    try:
        for count in pool.map(partial(source.count_chunk, settings), source.chunks_of_side(settings)):
            total += count
            look()
    finally:
        pool.shutdown(cancel_futures=True)
    return total


class OpenFiles(NamedTuple):
    """The open files of a stream."""

    readers: list[Reader]
    source: _native.Source  # over all readers
    components: tuple[OpenedComponent, ...]  # files of one share each; none if the files have no shares


class FileSource(Source):
    """A source of files in the formats of one family, read by the native pipeline."""

    family: ClassVar[str]

    @abstractmethod
    def batch_layout(self, config: DataConfig) -> BatchSchema:
        """Returns the layout of a batch made with these settings. data.format has been checked before."""

    @abstractmethod
    def open_readers(self, config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
        """Opens the files with the formats of the family. Raises DataError for files, ValueError for settings."""

    @abstractmethod
    def native_source(self, config: DataConfig, readers: Sequence[Reader], seed: int) -> _native.Source:
        """Makes the native source, which decodes, filters and builds batches from the files that the readers have
        open."""

    def schema(self, config: DataConfig) -> BatchSchema:
        if config.format is not None:
            load_family_format(config.format, self.family)
        return self.batch_layout(config)

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> NativeStream:
        opened = self._open_files(config, files, seed)
        return NativeStream(config, self.schema(config), opened.source, seed, components=opened.components)

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> NativeStream:
        opened = self._open_files(config, files, seed)
        return NativeStream(
            config, self.schema(config), opened.source, seed, validation=True, components=opened.components
        )

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        """Describes the window (chunks shuffled together) in which the batch at `cursor` begins, with the chunks in it.

        The batch has the `samples` entries from number `first_entry` on, in the window's shuffled order. If the window
        has fewer, the rest comes from the beginning of the next window.
        """
        opened = self._open_files(config, files, seed)
        components = measure_components(opened.source, opened.components, config.num_threads)
        settings = pipeline_settings(config, seed, components)
        all_places = [reader.place(chunk) for reader in opened.readers for chunk in range(reader.num_chunks)]
        window_chunks = opened.source.chunks_of_window(settings, cursor.epoch, cursor.window)
        places = [all_places[chunk] for chunk in window_chunks]
        return {
            "epoch": cursor.epoch,
            "window": cursor.window,
            "first_entry": cursor.entry,
            "samples": config.batch_size,
            "chunks": [{"file": str(place.file), "chunk": place.chunk, "offset": place.offset} for place in places],
        }

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:
        opened = self._open_files(config, files, seed)
        return estimate_portions(opened.source, opened.components, config.num_threads)

    def count_samples(
        self,
        config: DataConfig,
        files: Sequence[DataFile],
        seed: int,
        *,
        validation: bool = False,
        look: Callable[[], object] = lambda: None,
    ) -> int:
        """Counts the samples of a pass by reading all files. Raises DataError, ValueError."""
        opened = self._open_files(config, files, seed)
        return count_pass_samples(config, opened.source, seed, validation=validation, look=look)

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:  # noqa: ARG002
        return [DataFact("order", note) for note in describe_compression(files, self.samples)]

    def format_name(self, config: DataConfig, file: DataFile) -> str:
        return format_name(config, resolve_file_format(config, file, self.family))

    def whole_size(self, config: DataConfig, file: DataFile) -> int:
        file_format = resolve_file_format(config, file, self.family)
        return file_format.whole_size(file) if isinstance(file_format, GrowingFormat) else file.size

    def _open_files(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> OpenFiles:
        readers, components = open_components(files, lambda group: self.open_readers(config, group))
        return OpenFiles(readers, self.native_source(config, readers, seed), components)

"""The source "rows": numbers and lists of features, from files of any format of the family rows, or from a user's
code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from loader import _native
from loader.files.identity import DataFile
from loader.formats.format import CountingReader, Reader
from loader.formats.readers import resolve_file_format
from loader.formats.source import FileSource, count_pass_samples
from loader.rows.blocks import GENERATOR, names_generator_function
from loader.rows.category_sample import CategoryFormat, describe_categories
from loader.rows.fields import batch_schema, row_shape
from loader.rows.memory import window_nbytes
from loader.rows.readers import FAMILY, as_native_reader, open_readers
from loader.rows.settings import RowsConfig
from loader.section import Section
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.native_stream import NativeStream, region_table
from loader.stream.schema import BatchSchema

_SAMPLED_CHUNKS = 8  # chunks read for an estimate


class RowsSource(FileSource):
    """The source "rows", of numbers and lists of features."""

    settings: ClassVar[type[Section]] = RowsConfig
    family = FAMILY
    samples = "rows"
    has_ids = True

    def batch_layout(self, config: DataConfig) -> BatchSchema:
        return batch_schema(config)

    def open_readers(self, config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
        return open_readers(config, files)

    def native_source(self, config: DataConfig, readers: Sequence[Reader], seed: int) -> _native.RowSource:  # noqa: ARG002
        shape, schema = row_shape(config.settings), batch_schema(config)
        natives = [as_native_reader(reader, shape) for reader in readers]
        return _native.RowSource(natives, shape, schema.batch_size, schema.slot_bytes, region_table(schema))

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> NativeStream:
        settings: RowsConfig = config.settings
        if not files and not settings.blocks:
            raise ValueError(
                "data.validation_share: validations have made-up rows of their own; leave it out, or name data.train"
            )
        if not files and settings.validation_blocks:
            raise ValueError("data.validation_share: data.rows.validation_blocks is set, too; leave one of them out")
        return super().open_validation_share(config, files, seed)

    def open_validation(self, config: DataConfig, seed: int) -> NativeStream:
        """Opens a stream of the rows of data.rows.validation_blocks. Without it the rows come from the same model as
        those of `open` without files, but are different ones."""
        source = self.native_source(config, open_readers(config, [], validation=True), seed)
        return NativeStream(config, self.schema(config), source, seed)

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:
        if not files and names_generator_function(config.settings.blocks):
            return (DataFact("order", f"{config.settings.blocks} {GENERATOR}"),)
        formats = [(file, resolve_file_format(config, file, FAMILY)) for file in files]
        categories = [(file, format) for file, format in formats if isinstance(format, CategoryFormat)]
        return [*super().describe_data(config, files), *describe_categories(config, categories)]

    def count_samples(
        self,
        config: DataConfig,
        files: Sequence[DataFile],
        seed: int,
        *,
        validation: bool = False,
        look: Callable[[], object] = lambda: None,
    ) -> int:
        """Counts the rows of a pass by reading all of them. Raises DataError, ValueError."""
        settings: RowsConfig = config.settings
        if not files and settings.synthetic.num_rows:
            return settings.synthetic.num_rows
        readers = open_readers(config, files, validation=validation and not config.validation_share)
        return count_pass_samples(
            config, self.native_source(config, readers, seed), seed, validation=validation, look=look
        )

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:  # noqa: ARG002
        """Estimates the number of rows from a few chunks. Returns None for rows of a user's code, which may take any
        time. Raises DataError."""
        if not files and config.settings.synthetic.num_rows:
            return int(config.settings.synthetic.num_rows)
        if not files:
            return None
        shape = row_shape(config.settings)
        return round(sum(_estimate_rows(reader, shape) for reader in open_readers(config, files)))

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:
        """Estimates the bytes of memory of the stream's windows; 0 for rows that come from no file."""
        return window_nbytes(config, files)


def _estimate_rows(reader: Reader, shape: _native.RowShape) -> float:
    """Estimates the number of rows of a reader from a few chunks. Raises DataError."""
    native = as_native_reader(reader, shape)
    num_chunks = native.num_chunks
    # Chunks that can only be decoded in order are read from the first on.
    step = 1 if native.in_file_order else max(1, num_chunks // _SAMPLED_CHUNKS)
    sampled = range(0, num_chunks, step)[:_SAMPLED_CHUNKS]
    if isinstance(reader, CountingReader):
        counts = [reader.count(chunk) for chunk in sampled]
    else:
        counts = [_native.count_rows(native, chunk, shape) for chunk in sampled]
    rows_of_last = 0
    num_similar = num_chunks
    if num_chunks - 1 in sampled:  # the last chunk may be shorter, so it is no sample of the others
        rows_of_last = counts.pop()
        num_similar -= 1
    return rows_of_last + sum(counts) / max(len(counts), 1) * num_similar

"""The source "rows": numbers and lists of features, from files of any format of that family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from loader import _native
from loader.files.compression import packed_notes
from loader.files.identity import DataFile
from loader.formats.format import CountingReader, GrowingFormat
from loader.formats.provenance import origin
from loader.formats.readers import family_format, name_of
from loader.rows.blocks import GENERATOR, is_generator
from loader.rows.fields import batch_schema, row_shape
from loader.rows.memory import window_nbytes
from loader.rows.readers import FAMILY, format_of, native_reader, open_readers
from loader.rows.settings import RowsConfig
from loader.section import Section
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.mixture_rates import OpenedComponent, Portion, open_components, portions, rates
from loader.stream.native_stream import NativeStream, region_table
from loader.stream.schema import BatchSchema

_LOOKED_AT = 8  # chunks, for an estimate


class RowsSource:
    """`loader.sources.Source`."""

    settings: ClassVar[type[Section]] = RowsConfig

    def schema(self, config: DataConfig) -> BatchSchema:
        if config.format is not None:
            family_format(config.format, FAMILY)
        return batch_schema(config)

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> NativeStream:
        natives, components, shape = self._natives(config, files)
        return self._stream(config, natives, shape, seed, components)

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> NativeStream:
        settings: RowsConfig = config.settings
        if not files and not settings.blocks:
            raise ValueError(
                "data.validation_share: validations have made-up rows of their own; leave it out, or name data.train"
            )
        if not files and settings.validation_blocks:
            raise ValueError("data.validation_share: data.rows.validation_blocks is set, too; leave one of them out")
        natives, components, shape = self._natives(config, files)
        return self._stream(config, natives, shape, seed, components, validation=True)

    def open_validation(self, config: DataConfig, seed: int) -> NativeStream:
        """Rows of data.rows.validation_blocks, or of the same model as those of `open` without files, but others."""
        shape = row_shape(config.settings)
        readers = open_readers(config, [], validation=True)
        return self._stream(config, [native_reader(reader, shape) for reader in readers], shape, seed)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        natives, components, shape = self._natives(config, files)
        source = self._source(config, natives, shape)
        readers, mixed = open_readers(config, files), rates(source, components, config.threads)
        return origin(config, readers, seed, cursor, mixed, in_file_order=source.in_file_order, apart=True)

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:  # noqa: ARG002
        natives, components, shape = self._natives(config, files)
        return portions(self._source(config, natives, shape), components, config.threads)

    def start_notes(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[str]:
        if not files and is_generator(config.settings.blocks):
            return (f"{config.settings.blocks} {GENERATOR}",)
        return packed_notes(files, "rows")

    def format_name(self, config: DataConfig, file: DataFile) -> str:
        return name_of(config, format_of(config, file))

    def whole_size(self, config: DataConfig, file: DataFile) -> int:
        found = format_of(config, file)
        return found.whole_size(file) if isinstance(found, GrowingFormat) else file.size

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:  # noqa: ARG002
        """About how many rows there are. Raises DataError."""
        if not files and config.settings.synthetic.num_rows:
            return int(config.settings.synthetic.num_rows)
        if not files:  # a user's code, which may take any time
            return None
        shape = row_shape(config.settings)
        rows = 0.0
        for reader in open_readers(config, files):
            native = native_reader(reader, shape)
            last = native.num_chunks - 1
            # What is decoded in order is looked at where it begins.
            step = 1 if native.in_file_order else max(1, native.num_chunks // _LOOKED_AT)
            chunks = range(0, native.num_chunks, step)[:_LOOKED_AT]
            counts = [
                reader.count(chunk) if isinstance(reader, CountingReader) else _native.count_rows(native, chunk, shape)
                for chunk in chunks
            ]
            if last in chunks:  # it may be short
                rows += counts.pop()
                last -= 1
            rows += sum(counts) / max(len(counts), 1) * (last + 1)
        return round(rows)

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:
        """About; 0 for rows that come from no file."""
        return window_nbytes(config, files)

    def _stream(
        self,
        config: DataConfig,
        natives: list[_native.RowReader],
        shape: _native.RowShape,
        seed: int,
        components: Sequence[OpenedComponent] = (),
        *,
        validation: bool = False,
    ) -> NativeStream:
        source = self._source(config, natives, shape)
        return NativeStream(config, self.schema(config), source, seed, validation=validation, components=components)

    def _source(
        self, config: DataConfig, natives: list[_native.RowReader], shape: _native.RowShape
    ) -> _native.RowSource:
        schema = self.schema(config)
        return _native.RowSource(natives, shape, schema.batch_size, schema.slot_bytes, region_table(schema))

    def _natives(
        self, config: DataConfig, files: Sequence[DataFile]
    ) -> tuple[list[_native.RowReader], tuple[OpenedComponent, ...], _native.RowShape]:
        shape = row_shape(config.settings)
        readers, components = open_components(files, lambda group: open_readers(config, group))
        return [native_reader(reader, shape) for reader in readers], components, shape

"""The data source "chess": training samples are positions with a score and a result, read from files of any format of
the family "chess"."""

from __future__ import annotations

import select
from collections.abc import Sequence

from loader import _native
from loader.chess.description import describe_positions
from loader.chess.fields import batch_schema
from loader.chess.filters import needed_parts
from loader.chess.filters.native_settings import filter_settings
from loader.chess.output_buckets import buckets_by_pieces
from loader.chess.pgn_description import describe_comments
from loader.chess.readers import FAMILY, native_reader, open_readers
from loader.chess.settings import ChessConfig
from loader.files.compression import is_readably_compressed
from loader.files.identity import DataFile
from loader.formats.format import CountingReader, Reader
from loader.formats.readers import resolve_file_format
from loader.formats.source import FileSource
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.native_stream import NativeStream, region_table
from loader.stream.schema import BatchSchema
from loader.stream.slots import allocate_slots

_MIB = 1 << 20
_DECODED = 28  # bytes of memory for a byte of file, for formats that do not state theirs
_PACKED = 4  # decompressed bytes for a byte of a compressed file
_WINDOWS = 2  # one is read while the next is decoded
_LOOKED_AT = 8  # chunks that are decoded to estimate the number of positions
_SECONDS = 5.0  # time limit for the measurement of the share that passes the filters


class ChessSource(FileSource):
    """Opens files of chess positions as a stream of training batches, and answers questions about the files."""

    settings = ChessConfig
    family = FAMILY
    samples = "positions"

    def batch_layout(self, config: DataConfig) -> BatchSchema:
        return batch_schema(config)

    def open_readers(self, config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
        return open_readers(config, files)

    def native_source(self, config: DataConfig, readers: Sequence[Reader], seed: int) -> _native.PositionSource:
        """Returns the native source, which decodes chunks of the files, filters the positions and writes features into
        batches."""
        schema = batch_schema(config)
        needed = needed_parts(config.settings.filters)
        return _native.PositionSource(
            [native_reader(reader, needed, skips=config.on_bad_data == "skip") for reader in readers],
            config.settings.features,
            config.settings.king_buckets,
            buckets_by_pieces(config.settings.output_buckets),
            schema.batch_size,
            schema.slot_bytes,
            region_table(schema),
            filter_settings(config.settings.filters),
            seed,
        )

    def score_unit(self, config: DataConfig, file: DataFile) -> str:
        """Returns the unit of a file's scores: the unit that the user gave for the file, else the usual one of its
        format. The text is empty if neither is known."""
        if file.score_unit is not None:
            return file.score_unit
        return getattr(resolve_file_format(config, file, FAMILY), "SCORE_UNIT", "")

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:
        return [
            *describe_positions(config, files),
            *describe_comments(config, files),
            *super().describe_data(config, files),
        ]

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:
        """Estimates how many positions of the files pass the filters.

        Decodes at most 15 chunks to get the mean number of positions of a chunk, and runs the filters on the beginning
        of the stream. Returns None if the filters yield no batch of 16 positions within 5 seconds. Raises DataError.
        """
        readers = open_readers(config, files)
        chunks = sum(reader.num_chunks for reader in readers)
        step = max(1, chunks // _LOOKED_AT)
        # Files that can only be decoded in order are sampled at their beginning.
        in_file_order = any(native_reader(reader).in_file_order for reader in readers)
        looked_at = range(min(chunks, _LOOKED_AT)) if in_file_order else range(0, chunks, step)
        entries = sum(_count(*_chunk_of(readers, number)) for number in looked_at)
        share = self._share_kept(config, readers, seed)
        return None if share is None else round(entries / len(looked_at) * chunks * share)

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:
        """Estimates the bytes of memory for decoded positions: two shuffle windows, of which one gives samples while
        the next one is decoded.

        A window has `data.window_chunks` chunks, each about 1 MiB of a file or a whole smaller file. So it never holds
        more than the files have.
        """
        decoded = (
            max(getattr(resolve_file_format(config, file, FAMILY), "DECODED", _DECODED) for file in files)
            if files
            else 0
        )
        there = sum(file.size * (_PACKED if is_readably_compressed(file) else 1) for file in files)
        return _WINDOWS * min(config.window_chunks * _MIB, there) * decoded

    def _share_kept(self, config: DataConfig, readers: Sequence[Reader], seed: int) -> float | None:
        """Measures which share of positions the filters keep, on what the stream reads for its first batch. Returns
        None if no batch is complete after 5 seconds."""
        small = config.model_copy(update={"window_chunks": _LOOKED_AT, "batch_size": 16, "threads": 1})
        with NativeStream(small, batch_schema(small), self.native_source(small, readers, seed), seed) as stream:
            stream.attach(allocate_slots(stream.schema, 1))
            stream.give(0)
            ready = select.poll()
            ready.register(stream.fileno(), select.POLLIN)
            while stream.take() is None:
                if not ready.poll(1000 * _SECONDS):
                    return None
            read, kept, _ = stream.progress()
        return kept / read


def _count(reader: Reader, chunk: int) -> int:
    return reader.count(chunk) if isinstance(reader, CountingReader) else sum(1 for _ in reader.read(chunk))


def _chunk_of(readers: Sequence[Reader], number: int) -> tuple[Reader, int]:
    """Finds chunk `number`, counted over all readers. Returns its reader, and its number within that reader."""
    for reader in readers:
        if number < reader.num_chunks:
            return reader, number
        number -= reader.num_chunks
    raise IndexError(number)

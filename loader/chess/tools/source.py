"""Files to be read by tools: opened, read chunk by chunk as whole units or as the bytes of another format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from loader import _native
from loader.chess.files.format import PositionFormat
from loader.chess.files.opening import open_file
from loader.chess.files.reader import raise_fault
from loader.chess.files.units import UnitBlock, block_of
from loader.chess.tools.kind import Kind, kind_of_file
from loader.errors import DataError
from loader.files.identity import DataFile, identify
from loader.formats.binpack.file import damage_error
from loader.formats.faults import Fault
from loader.formats.parallel import map_chunks
from loader.formats.registry import format_by_name

Tick = Callable[[int, int], None]  # bytes of the files done, and all of them; may raise to stop
_HEADER = struct.Struct("<4sI")  # of a binpack chunk


def silent(_done: int, _all: int) -> None:
    """A Tick."""


@dataclass(frozen=True)
class SourceFile:
    """A file of positions, of one format."""

    path: Path
    kind: Kind
    opened: _native.BinpackFile | _native.EntryFile

    @property
    def size(self) -> int:
        return self.opened.size

    @property
    def num_chunks(self) -> int:
        return self.opened.num_chunks

    def offset(self, chunk: int) -> int:
        """Bytes of the file before a chunk, about."""
        if chunk >= self.num_chunks:
            return self.size
        if isinstance(self.opened, _native.BinpackFile):
            return self.opened.chunk(chunk)[0]
        return self.opened.offset(chunk)

    def read_units(self, chunk: int) -> UnitBlock:
        """Raises DataError at damage."""
        if isinstance(self.opened, _native.BinpackFile):
            return block_of(self.opened.read_units(chunk))
        return block_of(_native.read_units(self.opened, chunk))

    def copy_to(self, chunk: int, writer: _native.EntryWriter) -> None:
        """Adds a chunk's entries. Raises DataError at damage, and for an entry that the writer's format can't hold."""
        if isinstance(self.opened, _native.BinpackFile):
            if damage := self.opened.copy_to(chunk, writer):
                raise damage_error(self.path, damage, in_chunk=True)
        else:
            raise_fault(cast("Fault | None", _native.ChunkWalk(self.opened, chunk).copy_to(writer)))

    def check_end(self) -> None:
        """Raises DataError if the chunks end early."""
        if isinstance(self.opened, _native.BinpackFile) and self.opened.header_damage is not None:
            raise damage_error(self.path, self.opened.header_damage, in_chunk=False)


def open_sources(paths: Sequence[Path]) -> list[SourceFile]:
    """Raises UsageError, DataError."""
    return [_open(file) for file in identify(paths)]


def _open(file: DataFile) -> SourceFile:
    kind = kind_of_file(file.path)
    if kind.is_binpack:
        opened: _native.BinpackFile | _native.EntryFile = _native.BinpackFile(file.path, file.identity)
    else:
        found = cast(PositionFormat, getattr(format_by_name(kind.name), "FORMAT"))  # noqa: B009 (not in its interface)
        opened = open_file(found, file)
    return SourceFile(file.path, kind, opened)


def all_units(sources: Sequence[SourceFile], target: Kind, threads: int, tick: Tick = silent) -> Iterator[UnitBlock]:
    """Of files one after another, as units of the target's format. Raises DataError."""
    whole = sum(source.size for source in sources)
    before = 0
    for source in sources:
        for block, done in units_of(source, target, threads):
            yield block
            tick(before + done, whole)
        before += source.size


def units_of(source: SourceFile, target: Kind, threads: int) -> Iterator[tuple[UnitBlock, int]]:
    """Blocks, and how many bytes of the file are done after each."""
    if source.kind == target:
        for chunk, block in enumerate(map_chunks(source.read_units, source.num_chunks, threads)):
            yield block, source.offset(chunk + 1)
    else:
        rest = b""
        for encoded, done in encoded_of(source, target, threads):
            block, rest = _cut(target, rest + encoded)
            yield block, done
        assert not rest, f"{target.name}: what was written does not read"
    source.check_end()


def encoded_of(source: SourceFile, target: Kind, threads: int) -> Iterator[tuple[bytes, int]]:
    """The file in another format, in pieces of whatever length. Raises DataError."""
    if not target.keeps_games or (source.kind.keeps_games and not target.is_binpack):  # chunk by chunk is the same

        def encode(chunk: int) -> bytes:
            own = target.make_writer()
            source.copy_to(chunk, own)
            own.finish()
            return own.take()

        for chunk, encoded in enumerate(map_chunks(encode, source.num_chunks, threads)):
            yield encoded, source.offset(chunk + 1)
    else:
        writer = target.make_writer()
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, writer)
            yield writer.take(), source.offset(chunk + 1)
        writer.finish()
        yield writer.take(), source.size


def _cut(target: Kind, encoded: bytes) -> tuple[UnitBlock, bytes]:
    """The whole units, and what is behind them: the beginning of one."""
    if not target.is_binpack:
        block = block_of(_native.cut_units(target.codec, np.frombuffer(encoded, np.uint8)))
        return block, encoded[len(block.bytes) :]
    payloads, at = [], 0
    while at < len(encoded):
        _, size = _HEADER.unpack_from(encoded, at)
        payloads.append(encoded[at + _HEADER.size : at + _HEADER.size + size])
        at += _HEADER.size + size
    return block_of(_native.cut_chains(b"".join(payloads))), b""


def expected_bytes(sources: Sequence[SourceFile], target: Kind) -> int:
    """Of the files in the target's format, from the first chunk of each: more or less. Raises DataError."""
    total = 0.0
    for source in sources:
        if source.num_chunks == 0:
            continue
        if source.kind == target:
            made = len(source.read_units(0).bytes)
        else:
            writer = target.make_writer()
            source.copy_to(0, writer)
            writer.finish()
            made = len(writer.take())
        total += made * source.size / max(source.offset(1), 1)
    return int(total)


def refuse_empty(sources: Sequence[SourceFile]) -> None:
    """Raises DataError if there is nothing in any of them."""
    for source in sources:
        if source.num_chunks == 0:
            source.check_end()
    if not any(source.num_chunks for source in sources):
        raise DataError(", ".join(str(source.path) for source in sources[:3]), "there is nothing to read")

"""Inputs of commands that read their data once: files and pipes.

A pipe is cut into the same chunks as a file with the same bytes. So random filters, games, chains and the places of
damage are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from loader import _native
from loader.chess.positions.entry import Entry
from loader.chess.positions.file import KEEP_ILLEGAL, BadDataPolicy
from loader.chess.positions.format import PositionFormat, piped_format, refuse_unused_comments
from loader.chess.positions.input import Changes, Source, SourceChunk, SourceFile, open_source
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.errors import DataError, UsageError
from loader.files.compression import find_decompress_command
from loader.files.identity import identify
from loader.files.pipes import Input, InputPipe, resolve_input
from loader.formats.format import HEAD_BYTES
from loader.stream.skipped_data import SkippedChunks

_MOST = 1 << 30  # most bytes that are searched for the end of a chunk


class PipedSource:
    """Positions that come out of a pipe, cut into chunks as they arrive. It implements
    `loader.chess.positions.input.Source`."""

    def __init__(
        self,
        pipe: InputPipe,
        format: PositionFormat,
        *,
        needed: Sequence[str],
        policy: BadDataPolicy = KEEP_ILLEGAL,
        scale: float = 1.0,
    ) -> None:
        """Wraps a pipe. `needed` lists parts of an entry without which it counts as damage. `scale` multiplies scores
        when they are written."""
        self.pipe = pipe
        self.format = format
        self.changes = Changes()
        self.skipped = SkippedChunks()
        self._needed = needed
        self._rule = policy
        self._scale = scale
        self._begins: list[int] = []  # offset in bytes of each chunk read so far
        self._units = 0  # records, lines or games read so far
        self._header = b""

    @property
    def path(self) -> Path:
        return self.pipe.path

    @property
    def size(self) -> int:
        return 0

    @property
    def is_empty(self) -> bool:
        return not self._begins and not self.pipe.fill(1)

    def offset(self, chunk: int) -> int:
        return self._begins[chunk] if chunk < len(self._begins) else self.pipe.num_consumed

    def chunks(self, first: int = 0) -> Iterator[SourceChunk]:
        """Reads the pipe chunk by chunk. Yields each chunk as a `SourceFile` in memory, with number 0. `first` must be
        the number of chunks read so far."""
        assert first == len(self._begins), "a pipe is read once"
        codec = self.format.codec
        while self.pipe.fill(1):
            begin = self.pipe.num_consumed
            data = self._next_piece(begin)
            self._header = self._header or codec.header_in(data)
            opened = _native.hold_entries(
                codec, self.path, data, begin, self._units, self._needed, *self._rule, self._header
            )
            self._units += _native.count_units(codec, data)
            number = len(self._begins)
            self._begins.append(begin)
            piece = SourceFile(
                self.path,
                self.format,
                opened,
                None,
                self._rule,
                self._scale,
                skipped=self.skipped,
                first_chunk=number,
            )
            yield SourceChunk(piece, 0)

    def check_end(self) -> None:
        """Does nothing: the end of the pipe is the end of its last chunk."""

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        self.pipe.on_wait = check

    def _next_piece(self, begin: int) -> bytes:
        """Reads the bytes of the next chunk, waiting for more until its end is found. Raises DataError for a unit of
        more than 1 GiB."""
        codec = self.format.codec
        wanted = codec.enough
        while True:
            last = not self.pipe.fill(wanted)
            if size := codec.first_piece(bytes(self.pipe.buffer), begin, last):
                self.pipe.fill(size)
                return self.pipe.consume(size)
            if wanted > _MOST:
                raise DataError(self.path, f"a {codec.unit} of more than 1 GiB", begin)
            wanted = 2 * len(self.pipe.buffer)


def open_inputs(
    paths: Sequence[Path | Input],
    option: str | None = None,
    *,
    needed: Sequence[str] = (),
    policy: BadDataPolicy = KEEP_ILLEGAL,
    indexed: bool = True,
    scale: float = 1.0,
    comments: PgnComments = NO_SETTINGS,
) -> list[Source]:
    """Opens files and pipes as sources of positions, in the order given.

    `option` is the format of inputs whose format can't be found. An entry that lacks a part listed in `needed` counts
    as damage. `indexed` has the meaning that it has for `open_file`. `scale` multiplies scores when they are written.
    `comments` says how scores in PGN are read. Raises UsageError, DataError, OSError.
    """
    inputs = [resolve_input(each) if isinstance(each, Path) else each for each in paths]
    pipes = [each.path for each in inputs if each.is_pipe]
    if twice := [path for path in pipes if pipes.count(path) > 1]:
        raise UsageError(f"{twice[0]}: is a pipe, and given twice; it can be read once")
    files = {file.path: file for file in identify([each.path for each in inputs if not each.is_pipe])}
    sources: list[Source] = [
        _open_pipe(each.path, option, needed, policy, scale, comments)
        if each.is_pipe
        else open_source(
            files[each.path], option, needed=needed, policy=policy, indexed=indexed, scale=scale, comments=comments
        )
        for each in inputs
    ]
    refuse_unused_comments(comments, [source.format for source in sources])
    return sources


def open_input(
    path: Path | Input,
    option: str | None = None,
    *,
    needed: Sequence[str] = (),
    policy: BadDataPolicy = KEEP_ILLEGAL,
    indexed: bool = True,
    comments: PgnComments = NO_SETTINGS,
) -> Source:
    """Opens a file or pipe as a source of positions, as `open_inputs`."""
    (source,) = open_inputs([path], option, needed=needed, policy=policy, indexed=indexed, comments=comments)
    return source


def entries(path: Path | str, option: str | None = None, *, comments: PgnComments = NO_SETTINGS) -> Iterator[Entry]:
    """Yields the entries of a file or pipe, in order. `comments` says how scores in PGN are read. Raises DataError at
    damage, after the entries before the damage."""
    source = open_input(Path(path), option, comments=comments)
    for file, chunk in source.chunks():
        yield from file.entries(chunk)
    source.check_end()


def _open_pipe(
    path: Path,
    option: str | None,
    needed: Sequence[str],
    policy: BadDataPolicy,
    scale: float,
    comments: PgnComments,
) -> PipedSource:
    """Opens a pipe and determines its format from its first bytes. Raises UsageError for compressed data, DataError for
    an empty pipe whose format is not given."""
    pipe = InputPipe(path)
    pipe.fill(HEAD_BYTES)
    head = bytes(pipe.buffer[:HEAD_BYTES])
    if program := find_decompress_command(head):
        raise UsageError(f"{path}: is compressed, and comes out of a pipe: put `{program}` before this command")
    if not head and option is None:
        raise DataError(path, "there is nothing to read; --format NAME takes it for an empty file of that format")
    format = piped_format(head, path, option).with_comments(comments)
    return PipedSource(pipe, format, needed=needed, policy=policy, scale=scale)

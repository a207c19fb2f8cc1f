"""Inputs of commands that read each once: files, and what comes out of pipes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader.chess.files.opening import KEPT, IllegalRule
from loader.chess.piped.source import PipedSource
from loader.chess.tools.kind import kind_of_head
from loader.chess.tools.source import Source, open_file_of
from loader.errors import DataError, UsageError
from loader.files.identity import identify
from loader.files.pipes import InputPipe, input_path, is_pipe
from loader.formats.format import HEAD_BYTES
from loader.formats.registry import decompressor


def open_inputs(
    paths: Sequence[Path], given: str | None = None, *, needs_ply: bool = False, illegal: IllegalRule = KEPT
) -> list[Source]:
    """In this order. `given`: their format, where they do not say it. With `needs_ply` an entry whose ply can't be
    known is damage. Raises UsageError, DataError, OSError."""
    named = [input_path(path) for path in paths]
    pipes = [path for path in named if is_pipe(path)]
    if twice := [path for path in pipes if pipes.count(path) > 1]:
        raise UsageError(f"{twice[0]}: is a pipe, and given twice; it can be read once")
    files = {file.path: file for file in identify([path for path in named if path not in pipes])}
    return [
        _open_pipe(path, given, needs_ply, illegal)
        if path in pipes
        else open_file_of(files[path], given, needs_ply=needs_ply, illegal=illegal)
        for path in named
    ]


def open_input(path: Path, given: str | None = None, *, needs_ply: bool = False, illegal: IllegalRule = KEPT) -> Source:
    """One of them."""
    (source,) = open_inputs([path], given, needs_ply=needs_ply, illegal=illegal)
    return source


def _open_pipe(path: Path, given: str | None, needs_ply: bool, illegal: IllegalRule) -> PipedSource:
    pipe = InputPipe(path)
    pipe.fill(HEAD_BYTES)
    head = bytes(pipe.held[:HEAD_BYTES])
    if program := decompressor(head):
        raise UsageError(f"{path}: is compressed, and comes out of a pipe: put `{program}` before this command")
    if not head and given is None:
        raise DataError(path, "there is nothing to read; --format NAME takes it for an empty file of that format")
    return PipedSource(pipe, kind_of_head(head, path, given), needs_ply=needs_ply, illegal=illegal)

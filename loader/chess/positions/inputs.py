"""Inputs of commands that read each once: files, and what comes out of pipes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader.chess.positions.input import Source, open_file_of
from loader.chess.positions.kind import kind_of_head
from loader.chess.positions.opening import KEPT, IllegalRule
from loader.chess.positions.pipe import PipedSource
from loader.errors import DataError, UsageError
from loader.files.compression import decompressor
from loader.files.identity import identify
from loader.files.pipes import Input, InputPipe, input_of
from loader.formats.format import HEAD_BYTES


def open_inputs(
    paths: Sequence[Path | Input], given: str | None = None, *, needs_ply: bool = False, illegal: IllegalRule = KEPT
) -> list[Source]:
    """In this order. `given`: their format, where they do not say it. With `needs_ply` an entry whose ply can't be
    known is damage. Raises UsageError, DataError, OSError."""
    inputs = [input_of(each) if isinstance(each, Path) else each for each in paths]
    pipes = [each.path for each in inputs if each.is_pipe]
    if twice := [path for path in pipes if pipes.count(path) > 1]:
        raise UsageError(f"{twice[0]}: is a pipe, and given twice; it can be read once")
    files = {file.path: file for file in identify([each.path for each in inputs if not each.is_pipe])}
    return [
        _open_pipe(each.path, given, needs_ply, illegal)
        if each.is_pipe
        else open_file_of(files[each.path], given, needs_ply=needs_ply, illegal=illegal)
        for each in inputs
    ]


def open_input(
    path: Path | Input, given: str | None = None, *, needs_ply: bool = False, illegal: IllegalRule = KEPT
) -> Source:
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

"""Translates errors of a reader that is written in Python into what the native stream expects."""

from __future__ import annotations

import logging
from typing import Literal

from loader.errors import DataChangedError, DataError
from loader.formats.format import Reader
from loader.plugins.error_text import format_error_with_location

log = logging.getLogger(__name__)

Fault = tuple[str, str, int | None, Literal["damaged", "changed", "unreadable"]]  # file, reason, offset, kind


def describe_fault(error: BaseException, reader: Reader, chunk: int) -> Fault:
    """Describes the error that reading a chunk has raised: (file, reason, offset, kind). An error that is neither about
    data nor about files is logged with its traceback, as it is probably a mistake in the reader."""
    if isinstance(error, DataChangedError):
        return error.file, error.reason, error.offset, "changed"
    if isinstance(error, DataError):
        return error.file, error.reason, error.offset, "damaged"
    if isinstance(error, OSError):
        return str(error.filename or reader.name), error.strerror or str(error), None, "unreadable"
    log.error("chunk %d of %s can't be read", chunk, reader.name, exc_info=error)
    reason = format_error_with_location(error)
    label = chunk_label(reader, chunk)
    if label:
        reason = f"{label}: {reason}"
    return chunk_file_name(reader, chunk), reason, None, "unreadable"


def chunk_file_name(reader: Reader, chunk: int) -> str:
    """Returns the name of the file that contains the chunk, or of all the reader's files if it can't tell."""
    try:
        return str(reader.place(chunk).file)
    except Exception:
        return reader.name


def chunk_label(reader: Reader, chunk: int) -> str:
    """Returns a chunk's name for people, counted within its file, as "row group 3". Empty if each file is one chunk."""
    noun = getattr(reader, "noun", "chunk")
    try:
        return f"{noun} {reader.place(chunk).chunk}" if noun else ""
    except Exception:
        return f"{noun} {chunk}"

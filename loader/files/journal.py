"""The journal of a work file (unfinished work of a command): which of the file's bytes are complete, and the state that
the command needs to continue. Pure functions, without files.

A journal is lines of JSON. The first line holds the settings of the work. Each further line commits a piece of the
data: `[end, crc, state]`, the data's length including the piece, a CRC-32, and the command's state after the piece. The
line SYNCED says that everything before it has reached the disk. The line `{"done": state}` says that the data are not
needed any more. A journal may end anywhere: a line counts if it is complete and its piece is, too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

State = Mapping[str, Any]
Settings = Mapping[str, str | int | float | bool | None]
Read = Callable[[int, int], bytes]  # called with (offset, count); returns fewer bytes at the end of the data

FORMAT = 1
SYNCED = b'"synced"\n'
MAX_LINE_BYTES = 1 << 24
_BLOCK_BYTES = 1 << 22  # of a piece that are read at once

Buffer = bytes | memoryview


class DamagedError(Exception):
    """Raised if bytes that had reached the disk are different now. A process that dies does not cause this."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # bytes from the start of the data
        super().__init__(f"damaged at {offset}")


@dataclass(frozen=True)
class Committed:
    """The complete part of some work, according to its journal: data, state, and whether the work is done."""

    end: int  # bytes of the data that are complete
    journal_end: int  # bytes of the journal's complete lines
    state: State | None  # None: nothing has been committed
    done: bool = False


def header_line(settings: Settings) -> bytes:
    """Returns the first line of a journal."""
    return _encode_line({"work file": FORMAT, "settings": dict(settings)})


def commit_line(end: int, parts: Iterable[Buffer], state: State) -> bytes:
    """Returns the line that commits a piece of the data. `parts`: the piece, cut into consecutive parts. `end`: length
    of the data including the piece."""
    return _encode_line([end, _checksum(end, parts, state), dict(state)])


def done_line(state: State) -> bytes:
    """Returns the line that says that the data are not needed any more."""
    return _encode_line({"done": dict(state)})


def read_header(line: bytes) -> Settings | None:
    """Returns the settings in the first line of a journal, or None if the line is no complete header."""
    header = _parse_line(line)
    if not isinstance(header, dict) or header.get("work file") != FORMAT:
        return None
    settings = header.get("settings")
    return settings if isinstance(settings, dict) else None


def may_be_torn_header(line: bytes) -> bool:
    """Returns whether the first line may be a header whose writer died: its beginning, or zeros in a file whose bytes
    never reached the disk."""
    beginning = header_line({})[: len('{"work file"')]
    return not line.endswith(b"\n") and (line.startswith(beginning[: len(line)]) or not line.strip(b"\0"))


def replay(header_nbytes: int, lines: Iterable[bytes], read: Read) -> Committed:
    """Follows the journal's lines after the header, up to the first invalid line. Returns the part of the work that is
    complete. `read` reads the data.

    Raises DamagedError if the invalid line is wrong, not only cut short, and had reached the disk.
    """
    committed = Committed(0, header_nbytes, None)
    line_iterator = iter(lines)
    for line in line_iterator:
        try:
            committed = _apply_line(committed, line, read)
        except _MissingDataError:
            return _find_done(committed, line_iterator) or committed
        except ValueError:
            return _stop_at_invalid_line(committed, list(line_iterator))
    return committed


class _MissingDataError(Exception):
    """Raised if the data are shorter than the piece that a line commits."""


def _apply_line(committed: Committed, line: bytes, read: Read) -> Committed:
    """Returns the state of the work after one more line. Raises ValueError if the line, or the piece that it commits,
    is not complete."""
    journal_end = committed.journal_end + len(line)
    if line == SYNCED:
        return replace(committed, journal_end=journal_end)
    match _parse_line(line):
        case {"done": dict(state)}:
            return replace(committed, journal_end=journal_end, state=state, done=True)
        case [int(end), int(crc), dict(state)] if end >= committed.end:
            if _checksum(end, _read_blocks(committed.end, end, read), state) == crc:
                return Committed(end, journal_end, state)
    raise ValueError(line)


def _stop_at_invalid_line(committed: Committed, later_lines: Sequence[bytes]) -> Committed:
    """Returns the complete part of the work when a line is invalid. Raises DamagedError if a later line says that the
    invalid one had reached the disk."""
    done = _find_done(committed, later_lines)
    if done is not None:
        return done
    if SYNCED in later_lines:
        raise DamagedError(committed.end)
    return committed


def _find_done(committed: Committed, lines: Iterable[bytes]) -> Committed | None:
    """Returns the complete part of the work, marked as done, if one of the lines says that its data are not needed any
    more; else None."""
    for line in lines:
        match _parse_line(line):
            case {"done": dict(state)}:
                return replace(committed, state=state, done=True)
    return None


def _read_blocks(begin: int, end: int, read: Read) -> Iterator[bytes]:
    """Yields the data from `begin` to `end` in blocks. Raises _MissingDataError if there are fewer bytes."""
    while begin < end:
        count = min(_BLOCK_BYTES, end - begin)
        block = read(begin, count)
        if len(block) < count:
            raise _MissingDataError
        yield block
        begin += count


def _checksum(end: int, parts: Iterable[Buffer], state: State) -> int:
    """Returns the CRC-32 of a commit: its end, its state and the parts of its piece."""
    crc = zlib.crc32(_encode_line([end, dict(state)]))
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def _encode_line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _parse_line(line: bytes) -> object:
    """Parses a line of JSON. Returns None for a line that is torn or is not JSON."""
    if not line.endswith(b"\n"):
        return None
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed

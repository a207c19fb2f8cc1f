"""The journal of a work file: which of its bytes are whole, and what its command has to know to go on. Pure.

Lines of JSON. The first holds the settings of the work; each further one commits a piece of the data:
`[end, crc, state]`, the data's length with the piece, a CRC-32, and the command's state after the piece. The line
SYNCED says that everything before it has reached the disk; `{"done": state}` that the data are not needed any more. A
journal may end anywhere: a line counts if it is whole and the piece it commits is.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

State = Mapping[str, Any]
Settings = Mapping[str, str | int | float | bool | None]
Read = Callable[[int, int], bytes]  # up to (offset, count) bytes of the data

FORMAT = 1
SYNCED = b'"synced"\n'
LONGEST_LINE = 1 << 24
_BLOCK = 1 << 22  # bytes of a piece that are read at once

Buffer = bytes | memoryview


class DamagedError(Exception):
    """Other bytes than those that had reached the disk: this is not what a death leaves."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # in the data
        super().__init__(f"damaged at {offset}")


@dataclass(frozen=True)
class Committed:
    """The part of the work that is whole."""

    end: int  # bytes of the data
    journal_end: int  # bytes of the journal
    state: State | None  # None: nothing has been committed
    done: bool = False


def header_line(settings: Settings) -> bytes:
    return _line({"work file": FORMAT, "settings": dict(settings)})


def commit_line(end: int, parts: Iterable[Buffer], state: State) -> bytes:
    """`parts`: of the piece, one behind the other."""
    return _line([end, _sum(end, parts, state), dict(state)])


def done_line(state: State) -> bytes:
    return _line({"done": dict(state)})


def read_header(line: bytes) -> Settings | None:
    """The settings, or None if the line is not a whole header."""
    header = _parse(line)
    if not isinstance(header, dict) or header.get("work file") != FORMAT:
        return None
    settings = header.get("settings")
    return settings if isinstance(settings, dict) else None


def may_be_torn_header(line: bytes) -> bool:
    """Tells whether a death may have left this of a header: a piece of it, or the zeros of a file without its bytes."""
    beginning = header_line({})[: len('{"work file"')]
    return not line.endswith(b"\n") and (line.startswith(beginning[: len(line)]) or not line.strip(b"\0"))


def replay(begin: int, lines: Iterable[bytes], read: Read) -> Committed:
    """Goes through the lines behind the header, which has `begin` bytes, up to the first that does not hold.

    Raises DamagedError if that one is wrong, not only cut short, and had reached the disk.
    """
    whole = Committed(0, begin, None)
    rest = iter(lines)
    for line in rest:
        try:
            whole = _follow(whole, line, read)
        except _ShortError:
            return _done(whole, rest) or whole
        except ValueError:
            return _judge(whole, rest)
    return whole


class _ShortError(Exception):
    """The data end before the piece does."""


def _follow(whole: Committed, line: bytes, read: Read) -> Committed:
    """Raises ValueError if the line, or the piece it commits, is not whole."""
    journal_end = whole.journal_end + len(line)
    if line == SYNCED:
        return replace(whole, journal_end=journal_end)
    match _parse(line):
        case {"done": dict(state)}:
            return replace(whole, journal_end=journal_end, state=state, done=True)
        case [int(end), int(crc), dict(state)] if end >= whole.end:
            if _sum(end, _blocks(whole.end, end, read), state) == crc:
                return Committed(end, journal_end, state)
    raise ValueError(line)


def _judge(whole: Committed, rest: Iterable[bytes]) -> Committed:
    """After a line that does not hold."""
    later = list(rest)
    if (done := _done(whole, later)) is not None:
        return done
    if SYNCED in later:
        raise DamagedError(whole.end)
    return whole


def _done(whole: Committed, rest: Iterable[bytes]) -> Committed | None:
    """Returns what is whole, if one of the lines says that its data are not needed any more."""
    for line in rest:
        match _parse(line):
            case {"done": dict(state)}:
                return replace(whole, state=state, done=True)
    return None


def _blocks(begin: int, end: int, read: Read) -> Iterator[bytes]:
    while begin < end:
        count = min(_BLOCK, end - begin)
        block = read(begin, count)
        if len(block) < count:
            raise _ShortError
        yield block
        begin += count


def _sum(end: int, parts: Iterable[Buffer], state: State) -> int:
    crc = zlib.crc32(_line([end, dict(state)]))
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> object:
    """None for a torn line and for one that is not JSON."""
    if not line.endswith(b"\n"):
        return None
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed

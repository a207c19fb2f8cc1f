"""Damaged binpack files, made of a sound one with two chunks, and the verdict that a careful reader gives of each."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.support.paths import DATA

SOUND = (DATA / "two-chunks.binpack").read_bytes()
SECOND = 26392  # offset of the second chunk
STEM = 1693  # of a chain of 53 entries: 24 bytes of position, move, score, ..., length of the chain at 32


class Damage(NamedTuple):
    """A damaged file."""

    name: str
    content: bytes
    entries: int  # before the damage
    reason: str | None = None  # None: nothing is wrong with it
    offset: int | None = None  # None: that of the chain, which is not known beforehand


def edited(offset: int, new: bytes) -> bytes:
    """The sound file with `new` at an offset."""
    return SOUND[:offset] + new + SOUND[offset + len(new) :]


def size(chunk: int) -> bytes:
    """A chunk's size as its header has it."""
    return chunk.to_bytes(4, "little")


LENGTH = int.from_bytes(SOUND[4:8], "little")
NO_MAGIC = "expected a chunk, which begins with b'BINP', got "
RANDOM = random.Random(1).randbytes(1 << 16)
DAMAGES = (
    Damage("sound", SOUND, 12043),
    Damage("empty", b"", 0),
    Damage("an empty chunk before a good one", SOUND[:4] + size(0) + SOUND[SECOND:], 6000),
    Damage(
        "spare bytes in a chunk", SOUND[:4] + size(LENGTH + 20) + SOUND[8:SECOND] + bytes(20) + SOUND[SECOND:], 12043
    ),
    Damage("magic of a chunk", edited(SECOND, bytes(4)), 6043, NO_MAGIC + repr(bytes(4)), SECOND),
    Damage("junk behind the last chunk", SOUND + b"\x13" * 16, 12043, NO_MAGIC + repr(b"\x13" * 4), len(SOUND)),
    Damage(
        "a chunk beyond all bounds",
        edited(4, b"\xff" * 4),
        0,
        "expected a chunk of at most 104857600 bytes, got one of 4294967295",
        0,
    ),
    Damage("too small a chunk", edited(4, size(LENGTH - 100)), 5993, "move text runs past the end of its chunk"),
    Damage("too large a chunk", edited(4, size(LENGTH + 100)), 6044, "move does not start on an own piece"),
    Damage("cut header", SOUND[: SECOND + 5], 6043, "expected the 8 bytes that a chunk begins with, got 5", SECOND),
    Damage("cut chunk", SOUND[:40462], 6043, "expected the 28125 bytes of the chunk, got 14062", SECOND),
    Damage("last byte missing", SOUND[:-1], 6043, "expected the 28125 bytes of the chunk, got 28124", SECOND),
    Damage("length of a chain", edited(STEM + 32, b"\xff\xff"), 393, "index past the last candidate"),
    Damage("a bit of a position", edited(STEM + 1, bytes([SOUND[STEM + 1] ^ 2])), 349, "index past the last candidate"),
    Damage("a bit of move text", edited(14936, bytes([SOUND[14936] ^ 1])), 3304, "index past the last candidate"),
    Damage("a position without pieces", edited(STEM, bytes(8)), 338, "a side has not exactly one king"),
    Damage("random bytes", RANDOM, 0, NO_MAGIC + repr(RANDOM[:4]), 0),
)

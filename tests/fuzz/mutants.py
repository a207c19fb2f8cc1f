"""Mutants of small binpack files: damaged as disks and programs damage them, behind headers that are right.

Structure-aware: a mutant whose length field is wrong is refused at its first byte and tests nothing else, so most
of them have their lengths mended.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from tests.loader.chess.formats.binpack_bytes import chunk

INTERESTING = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
STEM_FIELDS = ((0, 8), (8, 24), (24, 26), (26, 28), (28, 30), (30, 32), (32, 34))


def payloads_of(file: bytes) -> list[bytes]:
    """The payloads of a good file."""
    payloads, offset = [], 0
    while offset < len(file):
        (size,) = struct.unpack_from("<I", file, offset + 4)
        payloads.append(file[offset + 8 : offset + 8 + size])
        offset += 8 + size
    return payloads


def change_bytes(data: bytearray, rng: random.Random, begin: int, end: int) -> None:
    """One small accident between two places."""
    at = rng.randrange(begin, end)
    match rng.randrange(6):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.choice(INTERESTING)
        case 2:
            data[at:end] = rng.randbytes(end - at)
        case 3:
            del data[at : at + rng.randrange(1, 5)]
        case 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        case _:
            length = rng.randrange(1, 40)
            source = rng.randrange(len(data))
            data[at : at + length] = data[source : source + length]


def mutate_payload(payload: bytes, stems: list[int], rng: random.Random) -> bytes:
    """Changes in one chain's stem, field by field, or anywhere."""
    data = bytearray(payload)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        stem = rng.choice(stems)
        if rng.random() < 0.5 and stem + 34 <= len(data):
            begin, end = rng.choice(STEM_FIELDS)
            change_bytes(data, rng, stem + begin, stem + end)
        elif data:
            change_bytes(data, rng, 0, len(data))
    return bytes(data)


def mutants(file: bytes, stems: list[list[int]], count: int, seed: int) -> Iterator[bytes]:
    """`count` mutants of a good file; `stems`: where the chains of each chunk begin in its payload."""
    rng = random.Random(seed)
    payloads = payloads_of(file)
    for _ in range(count):
        changed = list(payloads)
        which = rng.randrange(len(changed))
        changed[which] = mutate_payload(changed[which], stems[which], rng)
        match rng.randrange(12):
            case 0:
                changed.append(rng.choice(changed))
            case 1:
                changed.reverse()
            case 2:
                changed = [b"".join(changed)]
        mutant = bytearray(b"".join(map(chunk, changed)))
        if rng.random() < 0.1:  # unmended, for once
            change_bytes(mutant, rng, 0, len(mutant))
        yield bytes(mutant)

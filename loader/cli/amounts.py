"""Parses amounts in the text of options: bytes and shares."""

from __future__ import annotations

import re
from fractions import Fraction

from loader.errors import UsageError

# Bytes of a unit, which is written with or without a "b" at its end.
UNITS = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
_MAX_BYTES = 1 << 60
_AMOUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([a-z]*)")  # number, unit


def parse_bytes(text: str, option: str) -> int:
    """Parses an amount of memory, as 4GiB, 512MiB or 2g, and returns the bytes. Raises UsageError, which names the
    option."""
    match = _AMOUNT.fullmatch(text.strip().lower().removesuffix("b"))
    nbytes_of_unit = match and UNITS.get(match[2])
    if not match or not nbytes_of_unit:
        raise UsageError(f"{option}: {text!r} is no amount of memory, as 4GiB or 512MiB")
    size = int(Fraction(match[1]) * nbytes_of_unit)
    if size > _MAX_BYTES:
        raise UsageError(f"{option}: {text} is more than {_MAX_BYTES >> 40} TiB")
    return size


def parse_share(text: str, option: str) -> float:
    """Parses a share between 0 and 1, as 2% or 0.02. Raises UsageError, which names the option."""
    number = text.strip()
    divisor = 1
    if number.endswith("%"):
        number = number.removesuffix("%")
        divisor = 100
    try:
        share = float(number) / divisor
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise UsageError(f"{option}: {text!r} is no share between 0 and 1, as 2% or 0.02")
    return share

"""Parses amounts in the text of options: bytes and shares."""

from __future__ import annotations

import re
from fractions import Fraction

from loader.errors import UsageError

UNITS = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_MOST_BYTES = 1 << 60


def parse_bytes(text: str, option: str) -> int:
    """Parses an amount of memory, as 4GiB, 512MiB or 2g, and returns the bytes. Raises UsageError, which names the
    option."""
    amount = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?([a-z]*)", text.strip().lower().removesuffix("b") or text)
    unit = amount and next((name for name in (amount[2], f"{amount[2]}b") if name in UNITS), None)
    if amount is None or unit is None:
        raise UsageError(f"{option}: {text!r} is no amount of memory, as 4GiB or 512MiB")
    size = int(Fraction(amount[1]) * UNITS[unit])
    if size > _MOST_BYTES:
        raise UsageError(f"{option}: {text} is more than {_MOST_BYTES >> 40} TiB")
    return size


def parse_share(text: str, option: str) -> float:
    """Parses a share between 0 and 1, as 2% or 0.02. Raises UsageError, which names the option."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 < share < 1:
        raise UsageError(f"{option}: {text!r} is no share between 0 and 1, as 2% or 0.02")
    return share

"""Amounts in the text of options: bytes, shares, exact numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from loader.errors import UsageError

UNITS = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_MOST_BYTES = 1 << 60


def bytes_of(text: str, option: str) -> int:
    """4GiB, 512MiB, 2g. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?([a-z]*)", text.strip().lower().removesuffix("b") or text)
    unit = found and next((name for name in (found[2], f"{found[2]}b") if name in UNITS), None)
    if found is None or unit is None:
        raise UsageError(f"{option}: {text!r} is no amount of memory, as 4GiB or 512MiB")
    size = int(Fraction(found[1]) * UNITS[unit])
    if size > _MOST_BYTES:
        raise UsageError(f"{option}: {text} is more than {_MOST_BYTES >> 40} TiB")
    return size


def exact_number(text: str) -> Fraction | None:
    """A number as it is written: 3, 0.02, 1/3 or 1e3, of ten places at most; None for what is none."""
    written = re.fullmatch(r"[0-9]{0,10}(\.[0-9]{0,10})?(e[-+]?[0-9])?|[0-9]{1,10}/[0-9]{1,10}", text.strip().lower())
    try:
        return Fraction(text.strip()) if written else None
    except (ValueError, ZeroDivisionError):
        return None


def share_of(text: str, option: str) -> float:
    """2% or 0.02. Raises UsageError."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 < share < 1:
        raise UsageError(f"{option}: {text!r} is no share between 0 and 1, as 2% or 0.02")
    return share

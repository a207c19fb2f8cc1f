"""Classifies how the categories of a column are spelled. A category is its text, so 17 and 17.0 are different ones."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

INTEGER, TEXT, FLOAT_ID = "integers", "texts", "integers with .0"
EXPONENT = "numbers with an exponent"
FRACTION = "numbers with a fraction"
MISSING_WORD = "words for missing"
_PLAIN = (INTEGER, TEXT)  # need no comment if all of a column are spelled so
_MAX_COMPARED = 10_000  # texts of a column that are compared for other spellings

_THOUSANDS = r"[+-]?[0-9]{1,3}(?:[,'_\u2019\u00a0\u202f ][0-9]{3})+(?:\.[0-9]+)?"
# Tried in this order on a text without spaces around it.
_PATTERNS = (
    (INTEGER, r"-?(?:0|[1-9][0-9]*)"),
    (FLOAT_ID, r"[+-]?[0-9]+\.0+"),
    ("integers with leading zeros", r"-?0[0-9]+"),
    ("integers with +", r"\+[0-9]+"),
    ("numbers with thousands separators", _THOUSANDS),
    (EXPONENT, r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+"),
    (FRACTION, r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)"),
    ("booleans as true", r"true|false"),
    ("booleans as True", r"True|False"),
    ("booleans as TRUE", r"TRUE|FALSE"),
    (MISSING_WORD, r"(?i:null|nan|none|n/?a|<na>|nat|nil|\\N)"),
    ("dates as 2024-01-31", r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T].*)?"),
    ("dates as 31.1.2024 or 1/31/2024", r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2,4}(?: .*)?"),
    ("several values by |", r"[^|]*\|.*"),
    ("several values by ;", r"[^;]*;.*"),
    ("several values by ,", r"[^,]*,.*"),
)
_COMPILED = tuple((name, re.compile(pattern, re.DOTALL)) for name, pattern in _PATTERNS)
_FLOAT_ID = re.compile(r"[+-]?[0-9]+(?:\.0+|(?:\.[0-9]+)?[eE]\+?[0-9]+)")
_WHOLE = re.compile(r"\+?(-?)0*([0-9]+)")


def classify_spelling(text: str) -> str:
    """Returns the name of the way in which a category is spelled, in the plural, as "integers with leading zeros"."""
    if text != text.strip():
        return "texts with spaces around"
    for name, pattern in _COMPILED:
        if pattern.fullmatch(text):
            return name
    return TEXT


def normalize_text(text: str) -> str:
    """Returns a normal form of a text, which different spellings of the same thing share. It has no spaces around, no
    +, no leading zeros, no separators of thousands and no fraction of 0. Letters are small and composed, digits are of
    one script."""
    text = unicodedata.normalize("NFKC", text.strip()).casefold()
    if re.fullmatch(_THOUSANDS, text):
        text = re.sub(r"[,'_\u2019 ]", "", text)
    integer_part, _, fraction = text.partition(".")
    if fraction.strip("0"):
        return text
    match = _WHOLE.fullmatch(integer_part)
    if match is None:
        return text
    sign, digits = match.groups()
    return digits if digits == "0" else f"{sign}{digits}"


@dataclass
class Spellings:
    """Counts the spellings of a column's categories, and pairs of texts that differ in spelling alone."""

    counts: Counter[str] = field(default_factory=Counter)  # number of entries by the name of their spelling
    pairs: int = 0  # number of texts that differ from an earlier one in spelling alone
    example: tuple[str, str] | None = None  # two such texts
    _first: dict[str, str] = field(default_factory=dict, repr=False)  # first text of each normal form
    _paired: set[str] = field(default_factory=set, repr=False)  # texts counted in `pairs`

    def add(self, texts: Mapping[str, int]) -> None:
        """Counts texts, each with the number of its entries."""
        for text, count in texts.items():
            self.counts[classify_spelling(text)] += count
            self._compare(text)

    def add_plain(self, spelling: str, count: int) -> None:
        """Counts `count` entries of that spelling without comparing their texts, as no two of them are spellings of one
        thing."""
        if count:
            self.counts[spelling] += count

    def _compare(self, text: str) -> None:
        """Counts the text as one of a pair if an earlier text has the same normal form."""
        normal_form = normalize_text(text)
        if normal_form not in self._first and len(self._first) < _MAX_COMPARED:
            self._first[normal_form] = text
        first = self._first.get(normal_form, text)
        if first == text or text in self._paired or self.pairs == _MAX_COMPARED:
            return
        self._paired.add(text)
        self.pairs += 1
        if self.example is None:
            self.example = (first, text)

    @property
    def is_plain(self) -> bool:
        """Returns whether all categories have one spelling that needs no comment."""
        if self.pairs or len(self.counts) > 1:
            return False
        return all(spelling in _PLAIN for spelling in self.counts)

    @property
    def is_real(self) -> bool:
        """Returns whether all categories are spelled as real numbers, some with a fraction."""
        return FRACTION in self.counts and self.counts.keys() <= {INTEGER, FLOAT_ID, EXPONENT, FRACTION}

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as plain data, for JSON."""
        return {"counts": dict(self.counts.most_common()), "pairs": self.pairs, "example": self.example}

    def summary(self) -> str:
        """Returns the counts as text, with an example of two spellings of the same thing."""
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.most_common())
        if self.example is None:
            return counts
        first, second = self.example
        text = f"{counts}; {first!r} and {second!r} are two categories"
        if self.pairs > 1:
            text += f", and {self.pairs - 1:,} more such pairs"
        return text


def find_common_float_id(texts: Iterable[str]) -> str | None:
    """Returns one of the texts if all look like whole numbers that were once floats, as 17.0 or 1.7e+18; else None.
    Ignores words for a missing value, which a program may write between them."""
    example = None
    for text in dict.fromkeys(texts):
        if _FLOAT_ID.fullmatch(text.strip()):
            example = text if example is None else example
        elif classify_spelling(text.strip()) != MISSING_WORD:
            return None
    return example

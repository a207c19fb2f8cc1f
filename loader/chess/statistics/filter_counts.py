"""Counts how many positions each filter would leave, and how many all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loader import _native
from loader.chess.filters import FilterConfig
from loader.chess.filters.native_settings import filter_settings
from loader.chess.positions.chunk import Records

TOGETHER = "together"


@dataclass(frozen=True)
class NamedFilter:
    """A filter with its name for people.

    `name` is a key of [data.chess.filters], or TOGETHER for all filters at once. `setting` is the value as text, empty
    for a filter that is only on or off.
    """

    name: str
    setting: str
    native: _native.Filter


@dataclass(frozen=True)
class FilterCount:
    """The number of entries of a file that a filter leaves."""

    name: str
    setting: str
    entries: int


def filters_to_count(filters: FilterConfig | None, seed: int) -> Sequence[NamedFilter]:
    """Returns each filter that is on as a filter of its own, then all together. Returns nothing if `filters` is
    None."""
    if filters is None:
        return ()
    least = filters.piece_count_least  # a parameter of piece_count and its curve, no filter of its own
    single_filters = []
    for key in FilterConfig.model_fields:
        value = getattr(filters, key)
        if key == "piece_count_least" or value == _inactive_value(key):
            continue
        config = FilterConfig(**{"skip_no_score": False, "piece_count_least": least, key: value})
        single_filters.append(NamedFilter(key, _format_setting(value), _make_filter(config, seed)))
    return (*single_filters, NamedFilter(TOGETHER, "", _make_filter(filters, seed)))


def count_passing(filters: Sequence[NamedFilter], records: Records, chunk: int) -> list[int]:
    """Returns the number of records of a chunk that pass each filter. Random filters draw by the number of the
    chunk."""
    return [int(np.count_nonzero(each.native.choose(records, chunk))) for each in filters]


def _make_filter(filters: FilterConfig, seed: int) -> _native.Filter:
    return _native.Filter(filter_settings(filters), seed)


def _inactive_value(key: str) -> object:
    """Returns the value of a key of [data.chess.filters] that turns its filter off."""
    return False if key == "skip_no_score" else FilterConfig.model_fields[key].default


def _format_setting(value: object) -> str:
    """Formats the value of a filter as text for people."""
    match value:
        case bool():
            return ""
        case tuple():
            return ",".join(f"{each:g}" for each in value)
        case float():
            return f"{value:g}"
        case int():
            return str(value)
        case str():
            return repr(value)
    return ""

"""Descriptions of how files of positions are read, for people: units of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from loader.chess.readers import format_of
from loader.files.identity import DataFile
from loader.formats.readers import name_of
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact

_MOST_GROUPS = 8  # of files, in one description


def describe_units(config: DataConfig, files: Sequence[DataFile]) -> Iterator[DataFact]:
    """Yields the units of scores, a fact for each run of files of one format, unit and scale. Raises DataError,
    ValueError."""
    groups = [(unit, list(group)) for unit, group in groupby(files, lambda file: _unit_of(config, file))]
    for unit, group in groups[:_MOST_GROUPS]:
        yield DataFact("score unit", f"{unit} ({_names_of(config, group)})")
    if len(groups) > _MOST_GROUPS:
        yield DataFact("score unit", f"... and {len(groups) - _MOST_GROUPS:,} more groups of files")


def _unit_of(config: DataConfig, file: DataFile) -> str:
    unit = getattr(format_of(config, file), "SCORE_UNIT", "")
    scale = "" if file.score_scale == 1.0 else f", multiplied by {file.score_scale:g}"
    return f"usually {unit}{scale}" if unit else f"not known{scale}"


def _names_of(config: DataConfig, files: Sequence[DataFile]) -> str:
    """Returns the format of files and the first one's name."""
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{name_of(config, format_of(config, files[0]))}: {files[0].path.name}{more}"

"""Describes a run's data files before it begins: names, formats, and the units that scores usually have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from loader.files.identity import DataFile
from loader.stream.config import DataConfig
from loader.stream.sources import format_name, score_unit
from pool.supervisor.prepare.memory_plan import mib

Files = Mapping[str, Sequence[DataFile]]  # by the key that names them

_MOST = 8  # lines on a page, and groups of files in one line


@dataclass(frozen=True)
class _Kind:
    format: str  # empty: not known
    unit: str | None  # of scores; None: there are none
    scale: float

    def __str__(self) -> str:
        scale = "" if self.scale == 1.0 else f", multiplied by {self.scale:g}"
        if self.unit is None:
            return self.format
        unit = f"usually in {self.unit}" if self.unit else "in a unit that is not known"
        return f"{self.format}, scores {unit}{scale}"


def file_lines(config: DataConfig, files: Sequence[DataFile]) -> Iterator[str]:
    """Yields a line for each file, as far as they are few."""
    for file in files[:_MOST]:
        kind = _kind(config, file)
        yield ", ".join(filter(None, (str(file.path), str(kind or ""), mib(file.size))))
    if len(files) > _MOST:
        yield f"... and {len(files) - _MOST:,} more"


def score_lines(config: DataConfig, files: Files) -> Iterator[str]:
    """Yields the formats and the units of scores, a line for each key of `files`; none for samples without scores."""
    for key, named in files.items():
        groups = [
            (kind, list(group))
            for (_, kind), group in groupby(named, lambda file: (file.component, _kind(config, file)))
            if kind is not None and kind.unit is not None
        ]
        if groups:
            some = [f"{_listed(group)}: {kind}" for kind, group in groups[:_MOST]]
            yield f"{key}: {'; '.join([*some, '...'] if len(groups) > _MOST else some)}"


def mixed_units(config: DataConfig, files: Files) -> str | None:
    """Returns a line if files whose scores have different units are read with one score_scale; else None."""
    units: dict[float, dict[str, DataFile]] = {}  # the first file of each, by scale
    for file in itertools.chain.from_iterable(files.values()):
        kind = _kind(config, file)
        if kind is not None and kind.unit:
            units.setdefault(kind.scale, {}).setdefault(kind.unit, file)
    for found in units.values():
        if len(found) > 1:
            mixed = " and ".join(f"{unit} ({file.path.name})" for unit, file in found.items())
            return (
                f"warning: scores of different units are mixed: {mixed}; the same number means another chance to win. "
                'score_scale brings an entry to the unit of the others: {files = "...", score_scale = ...}'
            )
    return None


def _kind(config: DataConfig, file: DataFile) -> _Kind | None:
    """Returns None for a file that can't be opened: the run says why."""
    try:
        return _Kind(format_name(config, file), score_unit(config, file), file.score_scale)
    except Exception:  # formats and sources are a user's code, too
        return None


def _listed(files: Sequence[DataFile]) -> str:
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0].path.name}{more}"

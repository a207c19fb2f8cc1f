"""Finds the files that data.train and data.validation name, with the share and the scale of scores that each entry
gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader.files.identity import Component, DataFile
from loader.files.paths import find_files
from loader.stream.mixture_entries import DataEntry, ScoreUnit


@dataclass(frozen=True)
class EntrySettings:
    """What an entry of data.train or data.validation says of its files: the entry's number, share, scale and unit of
    scores."""

    entry: int  # number of the entry, from 0
    component: Component | None = None
    score_scale: float = 1.0
    score_unit: ScoreUnit | None = None


def find_entry_files(entries: Sequence[str | DataEntry], key: str) -> tuple[list[Path], dict[Path, EntrySettings]]:
    """Finds the files of all entries. Returns their paths in order, and for each path what its entry says. `key`: what
    error messages call the entries.

    Raises ValueError for a pattern that matches nothing, and for a file that is named twice with shares, or with two
    different scales or units of scores.
    """
    paths: list[Path] = []
    known: dict[Path, EntrySettings] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            files, named = find_files([entry], key), EntrySettings(number)
        else:
            files = find_files(entry.files, f"{key}: entry {number + 1}: files")
            component = None if entry.share is None else Component(number, entry.share)
            named = EntrySettings(number, component, entry.score_scale, entry.score_unit)
        for path in files:
            if path in known and (problem := _problem_of_two(key, path, known[path], named)):
                raise ValueError(problem)
            known[path] = named
        paths += files
    return paths, known


def apply_entry_settings(
    files: Sequence[DataFile], known: Mapping[Path, EntrySettings], key: str
) -> tuple[DataFile, ...]:
    """Returns the files with the share, scale and unit of scores of their entries. Raises ValueError for a file (inode)
    that has two names with shares, or with two different scales or units."""
    seen: dict[tuple[int, int], DataFile] = {}
    for file in files:
        other = seen.setdefault((file.device, file.inode), file)
        if other is not file and (problem := _problem_of_two(key, file.path, known[other.path], known[file.path])):
            raise ValueError(f"{problem}: it is {other.path}, too")
    return tuple(
        replace(file, component=named.component, score_scale=named.score_scale, score_unit=named.score_unit)
        for file, named in ((file, known[file.path]) for file in files)
    )


def _problem_of_two(key: str, path: Path, first: EntrySettings, second: EntrySettings) -> str | None:
    """Returns what is wrong with a file that is named twice, by one entry or by two; None if the entries agree and have
    no share."""
    one, other = first.entry + 1, second.entry + 1
    where = f"{key}: {path} is in " + (f"entry {one} and entry {other}" if one != other else f"entry {one} twice")
    if second.component is not None:
        return f"{where}: a file has one share"
    if first.score_unit != second.score_unit:
        return f"{where}: a file has one score_unit"
    return f"{where}: a file has one score_scale" if first.score_scale != second.score_scale else None

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
    """The settings that an entry of data.train or data.validation gives its files."""

    entry: int  # number of the entry, from 0
    component: Component | None = None
    score_scale: float = 1.0
    score_unit: ScoreUnit | None = None


def find_entry_files(entries: Sequence[str | DataEntry], key: str) -> tuple[list[Path], dict[Path, EntrySettings]]:
    """Finds the files of all entries. Returns their paths in order, and the settings of each path. `key`: what error
    messages call the entries.

    Raises ValueError for a pattern that matches nothing, and for a file that is named twice with shares, or with two
    different scales or units of scores.
    """
    paths: list[Path] = []
    settings_by_path: dict[Path, EntrySettings] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            matches = find_files([entry], key)
            settings = EntrySettings(number)
        else:
            matches = find_files(entry.files, f"{key}: entry {number + 1}: files")
            settings = _entry_settings(number, entry)
        for path in matches:
            if path in settings_by_path:
                _check_no_conflict(key, path, settings_by_path[path], settings)
            settings_by_path[path] = settings
        paths += matches
    return paths, settings_by_path


def _entry_settings(number: int, entry: DataEntry) -> EntrySettings:
    component = None if entry.share is None else Component(number, entry.share)
    return EntrySettings(number, component, entry.score_scale, entry.score_unit)


def apply_entry_settings(
    files: Sequence[DataFile], settings_by_path: Mapping[Path, EntrySettings], key: str
) -> tuple[DataFile, ...]:
    """Returns the files with the share, scale and unit of scores of their entries. Raises ValueError for a file (inode)
    that has two names with shares, or with two different scales or units."""
    first_names: dict[tuple[int, int], DataFile] = {}
    applied = []
    for file in files:
        settings = settings_by_path[file.path]
        first_name = first_names.setdefault((file.device, file.inode), file)
        if first_name is not file:
            try:
                _check_no_conflict(key, file.path, settings_by_path[first_name.path], settings)
            except ValueError as error:
                raise ValueError(f"{error}: it is {first_name.path}, too") from None
        applied.append(
            replace(
                file,
                component=settings.component,
                score_scale=settings.score_scale,
                score_unit=settings.score_unit,
            )
        )
    return tuple(applied)


def _check_no_conflict(key: str, path: Path, first: EntrySettings, second: EntrySettings) -> None:
    """Raises ValueError for a file that is named twice, by one entry or by two, unless the entries have no share and
    agree on everything else."""
    if second.component is not None:
        problem = "a file has one share"
    elif first.score_unit != second.score_unit:
        problem = "a file has one score_unit"
    elif first.score_scale != second.score_scale:
        problem = "a file has one score_scale"
    else:
        return
    if first.entry == second.entry:
        places = f"entry {first.entry + 1} twice"
    else:
        places = f"entry {first.entry + 1} and entry {second.entry + 1}"
    raise ValueError(f"{key}: {path} is in {places}: {problem}")

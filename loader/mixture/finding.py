"""Finds the files that data.train and data.validation name, and what their entries say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader.files.identity import Component, DataFile
from loader.mixture.entries import DataEntry
from loader.sources import find_files


@dataclass(frozen=True)
class Named:
    """What an entry says of its files."""

    entry: int  # from 0 on
    component: Component | None = None
    score_scale: float = 1.0


def find_entries(entries: Sequence[str | DataEntry], key: str) -> tuple[list[Path], dict[Path, Named]]:
    """Returns the files in their order, and what their entries say; `key`: what errors call the entries.

    Raises ValueError for a pattern that matches nothing, and for a file that is named twice with shares, or with two
    scales.
    """
    paths: list[Path] = []
    known: dict[Path, Named] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            found, named = find_files([entry], key), Named(number)
        else:
            found = find_files(entry.files, f"{key}: entry {number + 1}: files")
            component = None if entry.share is None else Component(number, entry.share)
            named = Named(number, component, entry.score_scale)
        for path in found:
            if path in known:
                _check_twice(key, path, known[path], named)
            known[path] = named
        paths += found
    return paths, known


def with_entries(files: Sequence[DataFile], known: Mapping[Path, Named], key: str) -> tuple[DataFile, ...]:
    """Returns the files with what their entries say. Raises ValueError for a file that has two names with shares."""
    seen: dict[tuple[int, int], DataFile] = {}
    for file in files:
        other = seen.setdefault((file.device, file.inode), file)
        if other is not file and known[file.path].component is not None:
            raise ValueError(f"{_twice(key, file.path, known[other.path], known[file.path])}: it is {other.path}, too")
    return tuple(
        replace(file, component=known[file.path].component, score_scale=known[file.path].score_scale) for file in files
    )


def _check_twice(key: str, path: Path, first: Named, second: Named) -> None:
    """Raises ValueError."""
    if second.component is not None:
        raise ValueError(_twice(key, path, first, second))
    if first.score_scale != second.score_scale:
        raise ValueError(
            f"{key}: {path} is in entry {first.entry + 1} and entry {second.entry + 1}: a file has one score_scale"
        )


def _twice(key: str, path: Path, first: Named, second: Named) -> str:
    one, other = first.entry + 1, second.entry + 1
    where = f"entry {one} and entry {other}" if one != other else f"entry {one} twice"
    return f"{key}: {path} is in {where}: a file has one share"

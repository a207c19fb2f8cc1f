"""Finds the files of data.train, with or without shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loader.files.identity import Component, DataFile
from loader.mixture.entries import SharedFiles, patterns_of
from loader.sources import find_files


def find_train_files(entries: Sequence[str | SharedFiles], key: str) -> tuple[list[Path], dict[Path, Component]]:
    """The files in their order, and the component of each that has one; `key`: what errors call the entries.

    Raises ValueError for a pattern that matches nothing, and for a file that is named twice with shares.
    """
    paths: list[Path] = []
    components: dict[Path, Component] = {}
    for number, (patterns, share) in enumerate(patterns_of(entries)):
        found = find_files(patterns, key if share is None else f"{key}: entry {number + 1}: files")
        paths += found
        if share is None:
            continue
        for path in found:
            if path in components:
                raise ValueError(_twice(key, path, components[path].number, number))
            components[path] = Component(number, share)
    return paths, components


def with_components(files: Sequence[DataFile], components: dict[Path, Component], key: str) -> tuple[DataFile, ...]:
    """The files, each with its component. Raises ValueError for a file that has two names."""
    if not components:
        return tuple(files)
    seen: dict[tuple[int, int], DataFile] = {}
    for file in files:
        other = seen.setdefault((file.device, file.inode), file)
        if other is not file:
            first, second = components[other.path].number, components[file.path].number
            raise ValueError(f"{_twice(key, file.path, first, second)}: it is {other.path}, too")
    return tuple(replace(file, component=components[file.path]) for file in files)


def _twice(key: str, path: Path, first: int, second: int) -> str:
    where = f"entry {first + 1} and entry {second + 1}" if first != second else f"entry {first + 1} twice"
    return f"{key}: {path} is in {where}: a file has one share"

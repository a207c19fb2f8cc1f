"""Kinds of data, by name: from settings to a schema, from settings and files to a stream.

A source is found lazily, so that nobody pays for a kind of data that is not used. The pool asks here and
never imports a source itself; a source of the user's own is named "module:factory".
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from loader.config import DataConfig
from loader.schema import BatchSchema
from loader.stream import Cursor, Stream
from loader.users_code import look_in_current_folder


class Source(Protocol):
    """A kind of data. All raise ValueError with one clear line for settings they can't serve."""

    def schema(self, config: DataConfig) -> BatchSchema:
        """What a batch made with these settings has; reads no file."""

    def open(self, config: DataConfig, files: Sequence[Path], seed: int) -> Stream:
        """The stream of these files. Raises DataError for a file that can't be used at all (I8)."""

    def origin(self, config: DataConfig, files: Sequence[Path], seed: int, cursor: Cursor) -> dict[str, Any]:
        """Where the batch at `cursor` comes from, as plain data for people. Raises DataError."""


# name -> "module:factory"; calling the factory without arguments gives the Source.
SOURCES = {
    "binpack": "loader.binpack_stream:BinpackSource",
    "synthetic": "loader.synthetic:SyntheticSource",
}


def source_by_name(name: str) -> Source:
    """The source registered as `name`, or made by the factory that `name` ("module:factory") points at."""
    module_name, colon, attribute = SOURCES.get(name, name).partition(":")
    if not colon or not module_name or not attribute:
        raise ValueError(f"data.source: {name!r} is none of {', '.join(SOURCES)} and not of the form module:factory")
    if name not in SOURCES:
        look_in_current_folder(module_name)
    try:
        factory: Any = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"data.source: {name!r} can't be loaded: {error}") from error
    source: Source = factory()
    return source


def schema_of(config: DataConfig) -> BatchSchema:
    """The schema of the batches that `open_stream` will give for these settings."""
    return source_by_name(config.source).schema(config)


def open_stream(config: DataConfig, files: Sequence[Path], seed: int) -> Stream:
    """A stream at its beginning. Batch k is a function of the files (their order counts), config and seed (I1)."""
    return source_by_name(config.source).open(config, files, seed)


def origin_of(config: DataConfig, files: Sequence[Path], seed: int, cursor: Cursor) -> dict[str, Any]:
    """Where the batch that begins at `cursor` comes from, as plain data for people. Raises DataError."""
    return source_by_name(config.source).origin(config, files, seed, cursor)


def find_files(patterns: Sequence[str], key: str) -> list[Path]:
    """The files that the patterns (* and ?, ~ for home) name: in the order given, sorted within a pattern.

    Raises ValueError that names `key` (the config key the patterns came from) if one matches nothing.
    """
    files: list[Path] = []
    for pattern in patterns:
        expanded = str(Path(pattern).expanduser())
        # A name that exists is taken as it is, so that brackets in a file's name need no quoting.
        names = [expanded] if Path(expanded).exists() else sorted(glob.glob(expanded))  # noqa: PTH207 (absolute patterns)
        matches = [Path(name) for name in names]
        if not matches:
            raise ValueError(f"{key}: no file matches {pattern!r}")
        files += matches
    return files

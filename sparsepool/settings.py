"""Makes the settings of a stream from keywords, which are the keys of [data] in a config and are checked in the same
way."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loader.files.identity import DataFile, identify
from loader.stream.config import DataConfig
from loader.stream.mixture_entries import parse_train_files
from loader.stream.mixture_files import apply_entry_settings, find_entry_files
from loader.stream.sources import source_config_class
from pool.config.load import parse_section
from sparsepool.plain import encode_json

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Mapping[str, Any]]


def data_config(settings: Mapping[str, Any]) -> DataConfig:
    """Returns the checked settings. `settings`: keys of [data]; keys of the source's own section may stand beside them.
    Raises ConfigError that names the key, SparsepoolError, and ValueError for a source that does not exist."""
    source = str(settings.get("source", DataConfig.model_fields["source"].default))
    cls = source_config_class(source, DataConfig)
    tree: dict[str, Any] = {}
    source_settings: dict[str, Any] = {}
    for key, value in settings.items():
        if key == cls.section and isinstance(value, Mapping):
            source_settings |= value
        elif key in cls.model_fields or cls.section is None:
            tree[key] = value
        else:
            source_settings[key] = value
    if cls.section is not None and source_settings:
        tree[cls.section] = source_settings
    return parse_section(cls, json.loads(encode_json(tree)), "batches", ["data"])


def data_files(files: Files) -> tuple[DataFile, ...]:
    """Finds and identifies the files, which are given by name, or with shares as in data.train. Raises ValueError,
    DataError."""
    items = [files] if isinstance(files, str | os.PathLike) else files
    try:
        entries = parse_train_files([item if isinstance(item, Mapping) else os.fspath(item) for item in items])
    except ValueError as error:
        raise ValueError(f"files: {error}") from None
    paths, settings_by_path = find_entry_files(entries, "files")
    return apply_entry_settings(identify(paths), settings_by_path, "files")

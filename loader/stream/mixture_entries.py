"""Entries of data.train and data.validation, which may be tables with a share of the samples or a scale of the scores:
`[{files = "a/*.binpack", share = 3}, {files = "b.viri", share = 1, score_scale = 2.08}]`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from loader.section import Section

MAX_SHARE = 1e6
MAX_SCALE = 1e3

ScoreUnit = Literal["centipawns", "internal units"]


def split_commas(value: Any) -> Any:
    """Splits the text `a,b`, a list on the command line, into its parts. Converts a list to a tuple. Returns any
    other value as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


class DataEntry(Section):
    """Files that have settings of their own."""

    files: Annotated[
        tuple[str, ...], BeforeValidator(split_commas), Field(min_length=1, description="names; * and ? match")
    ]
    share: Annotated[
        float | None,
        Field(gt=0, le=MAX_SHARE, description="of the samples, against the shares of the other entries"),
    ] = None
    score_scale: Annotated[
        float, Field(gt=0, le=MAX_SCALE, description="what scores are multiplied by when they are read")
    ] = 1.0
    score_unit: Annotated[
        ScoreUnit | None, Field(description="the unit that scores in the files have, where it is not their format's")
    ] = None


def parse_train_files(value: Any) -> Any:
    """Parses data.train, names of files or tables (DataEntry), for pydantic's BeforeValidator. Raises ValueError that
    names the entry if a table is wrong, or if some entries have shares and others none."""
    if not _has_tables(value):
        return split_commas(value)
    entries = _parse_entries(value, list(DataEntry.model_fields))
    if any(isinstance(entry, DataEntry) and entry.share is not None for entry in entries):
        _check_all_have_shares(entries)
    return entries


def parse_validation_files(value: Any) -> Any:
    """Parses data.validation as `parse_train_files` does data.train, but without shares."""
    if not _has_tables(value):
        return split_commas(value)
    return _parse_entries(value, [key for key in DataEntry.model_fields if key != "share"])


def _has_tables(value: Any) -> bool:
    """Returns whether `value` is a list with at least one table (DataEntry)."""
    return isinstance(value, list | tuple) and any(isinstance(entry, Mapping | DataEntry) for entry in value)


def _parse_entries(entries: Sequence[Any], keys: list[str]) -> tuple[str | DataEntry, ...]:
    """Parses the tables among the entries. Names of files are returned as they are."""
    return tuple(
        entry if isinstance(entry, str) else _parse_table(number, entry, keys)
        for number, entry in enumerate(entries, 1)
    )


def _check_all_have_shares(entries: Sequence[str | DataEntry]) -> None:
    """Raises ValueError for the first entry without a share."""
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, str):
            raise ValueError(f"{entry!r} has no share, and other entries have: write {{files = ..., share = ...}}")
        if entry.share is None:
            raise ValueError(f"entry {number}: share is missing, and other entries have one")


def _parse_table(number: int, table: Any, keys: list[str]) -> DataEntry:
    """Parses entry `number` (from 1), a table of these keys. Raises ValueError for an unknown or missing key, or a
    wrong value."""
    if isinstance(table, DataEntry):
        return table
    if not isinstance(table, Mapping):
        raise ValueError(f"entry {number}: must be a table of {', '.join(keys)}, not {table!r:.80}")
    unknown_keys = [key for key in table if key not in keys and table[key] is not None]
    if unknown_keys:
        unknown = unknown_keys[0]
        similar_keys = difflib.get_close_matches(str(unknown), keys, n=1)
        hint = f"; did you mean {similar_keys[0]}?" if similar_keys else ""
        raise ValueError(f"entry {number}: unknown key {unknown}; allowed here: {', '.join(keys)}{hint}")
    if "files" not in table:
        raise ValueError(f"entry {number}: files is missing; an entry has {', '.join(keys)}")
    try:
        return DataEntry.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        key, problem = first["loc"][0], first["msg"]
        raise ValueError(
            f"entry {number}: {key}: {problem[:1].lower()}{problem[1:]}, not {table[str(key)]!r:.80}"
        ) from None

"""Entries of data.train and data.validation, which may be tables with a share of the samples or a scale of the scores:
`[{files = "a/*.binpack", share = 3}, {files = "b.viri", share = 1, score_scale = 2.08}]`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from loader.section import Section

MAX_SHARE = 1e6
MAX_SCALE = 1e3

ScoreUnit = Literal["centipawns", "internal units"]


def split_commas(value: Any) -> Any:
    """Splits `a,b`, as a list may be given on the command line, into its parts. A list becomes a tuple; anything else
    is returned as it is."""
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
    if not isinstance(value, list | tuple) or not any(isinstance(entry, Mapping | DataEntry) for entry in value):
        return split_commas(value)
    entries = tuple(
        entry if isinstance(entry, str) else _entry(number, entry, list(DataEntry.model_fields))
        for number, entry in enumerate(value, 1)
    )
    if any(isinstance(entry, DataEntry) and entry.share is not None for entry in entries):
        for number, entry in enumerate(entries, 1):
            if isinstance(entry, str):
                raise ValueError(f"{entry!r} has no share, and other entries have: write {{files = ..., share = ...}}")
            if entry.share is None:
                raise ValueError(f"entry {number}: share is missing, and other entries have one")
    return entries


def parse_validation_files(value: Any) -> Any:
    """Parses data.validation as `parse_train_files` does data.train, but without shares."""
    if not isinstance(value, list | tuple) or not any(isinstance(entry, Mapping | DataEntry) for entry in value):
        return split_commas(value)
    keys = [key for key in DataEntry.model_fields if key != "share"]
    return tuple(
        entry if isinstance(entry, str) else _entry(number, entry, keys) for number, entry in enumerate(value, 1)
    )


def _entry(number: int, table: Any, keys: list[str]) -> DataEntry:
    """Parses entry `number` (from 1), a table of these keys. Raises ValueError for an unknown or missing key, or a
    wrong value."""
    if isinstance(table, DataEntry):
        return table
    if not isinstance(table, Mapping):
        raise ValueError(f"entry {number}: must be a table of {', '.join(keys)}, not {table!r:.80}")
    if unknown := [key for key in table if key not in keys and table[key] is not None]:
        close = difflib.get_close_matches(str(unknown[0]), keys, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"entry {number}: unknown key {unknown[0]}; allowed here: {', '.join(keys)}{meant}")
    if "files" not in table:
        raise ValueError(f"entry {number}: files is missing; an entry has {', '.join(keys)}")
    try:
        return DataEntry.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        key, wrong = first["loc"][0], first["msg"]
        raise ValueError(
            f"entry {number}: {key}: {wrong[:1].lower()}{wrong[1:]}, not {table[str(key)]!r:.80}"
        ) from None

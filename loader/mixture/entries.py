"""Entries of data.train that have shares: `[{files = "a/*.binpack", share = 3}, {files = "b.viri", share = 1}]`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from loader.section import Section

MOST_SHARE = 1e6


def comma_list(value: Any) -> Any:
    """Lists may be given as `a,b` on the command line."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


class SharedFiles(Section):
    """Files that are one component of a mixture."""

    files: Annotated[
        tuple[str, ...], BeforeValidator(comma_list), Field(min_length=1, description="names; * and ? match")
    ]
    share: Annotated[
        float, Field(gt=0, le=MOST_SHARE, description="of the samples, against the shares of the other entries")
    ]


def train_files(value: Any) -> Any:
    """For BeforeValidator: names of files, or entries that all have shares. Raises ValueError that says which entry."""
    if not isinstance(value, list | tuple) or not any(isinstance(entry, Mapping) for entry in value):
        return comma_list(value)
    if names := [entry for entry in value if isinstance(entry, str)]:
        raise ValueError(f"{names[0]!r} has no share, and other entries have: write {{files = ..., share = ...}}")
    return tuple(_entry(number, entry) for number, entry in enumerate(value, 1))


def patterns_of(entries: Sequence[str | SharedFiles]) -> list[tuple[Sequence[str], float | None]]:
    """Patterns that belong together, and their share; None of names without shares."""
    shared: list[tuple[Sequence[str], float | None]] = [
        (entry.files, entry.share) for entry in entries if isinstance(entry, SharedFiles)
    ]
    return shared or [([entry for entry in entries if isinstance(entry, str)], None)]


def _entry(number: int, given: Any) -> SharedFiles:
    if isinstance(given, SharedFiles):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"entry {number}: must be a table of files and share, not {given!r:.80}")
    keys = list(SharedFiles.model_fields)
    if unknown := [key for key in given if key not in keys]:
        close = difflib.get_close_matches(str(unknown[0]), keys, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"entry {number}: unknown key {unknown[0]}; allowed here: {', '.join(keys)}{meant}")
    if missing := [key for key in keys if key not in given]:
        raise ValueError(f"entry {number}: {missing[0]} is missing; an entry has {' and '.join(keys)}")
    try:
        return SharedFiles.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        key, wrong = first["loc"][0], first["msg"]
        raise ValueError(
            f"entry {number}: {key}: {wrong[:1].lower()}{wrong[1:]}, not {given[str(key)]!r:.80}"
        ) from None

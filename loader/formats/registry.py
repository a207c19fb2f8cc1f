"""Formats by name, and by what a file holds.

The packages of loader.chess.formats and loader.rows.formats come with the loader; any other format is named by its
module. They are imported when they are asked for.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from loader.errors import DataError
from loader.files.compression import ENDINGS, READ, decompressor
from loader.files.regular import open_regular
from loader.formats.format import HEAD_BYTES, Format
from loader.plugins.interface import interface_problem
from loader.plugins.registry import Registry

FAMILIES = ("loader.chess.formats", "loader.rows.formats")


@cache
def _modules() -> Mapping[str, str]:
    """The modules of the formats that come with the loader, by the formats' names, in the names' order. Looked up once:
    a run may have thousands of files."""
    packages = [importlib.import_module(family) for family in FAMILIES]
    names = {
        module.name: f"{package.__name__}.{module.name}"
        for package in packages
        for module in pkgutil.iter_modules(package.__path__)
    }
    return dict(sorted(names.items()))


def built_in() -> Sequence[str]:
    """Returns the names of the formats that come with the loader, in order."""
    return list(_modules())


def format_by_name(name: str) -> Format:
    """A format that comes with the loader, or the module of that dotted name. Raises ValueError."""
    found = _registry().find(name)
    if problem := interface_problem(found, Format, "a format"):
        raise ValueError(f"data.format: {name}: {problem}")
    return cast(Format, found)


def format_of_file(path: Path, family: str | None = None) -> str | None:
    """The name of the format whose file this is: by its content, or else by the ending of its name.

    None if no format says so. `family`: formats of that family only. Raises ValueError if more than one says so.
    """
    return format_of_head(_head(path), path, family)


def format_of_head(head: bytes, path: Path, family: str | None = None) -> str | None:
    """Returns the name of the format of a file or pipe that begins with these bytes, up to HEAD_BYTES."""
    formats = _formats(family)
    by_content = [name for name, each in formats.items() if each.recognizes(head)]
    by_name = [
        name
        for name, each in formats.items()
        if path.name.endswith(tuple(each.SUFFIXES)) and not _unread_packing(head, each)
    ]
    if len(by_content) > 1:
        by_content = [name for name in by_content if name in by_name] or by_content
    found = by_content or by_name
    if len(found) > 1 and family is None:  # of names that rows and positions share; positions are known by content
        found = [name for name in found if formats[name].FAMILY == "rows"] or found
    if len(found) > 1:
        raise ValueError(f"{path}: may be of any of the formats {', '.join(found)}")
    return found[0] if found else None


def unclaimed(path: Path, family: str | None = None) -> str | None:
    """Why a file that no format claims can't be read without a name for its format; None of an empty one, or of one
    that can't be read, since opening it says why. Raises DataError where no name of a format helps: for a file that
    another family's format claims by its content, and for one that is compressed in a way that is not read."""
    head = _head(path)
    if not head:
        return None
    if program := decompressor(head):
        if program not in READ:
            raise DataError(path, _unread(program))
        return "is compressed, and its name does not say what is in it"
    for name, each in _formats(None).items():
        if family is not None and each.recognizes(head):
            raise DataError(
                path,
                f"is in {name}, which holds records of {each.FAMILY}, and those of {family} are read here; "
                "docs/how-to/bring-your-data.md says what can be converted",
            )
    return f"does not begin as any of the formats {', '.join(names_of_family(family) if family else built_in())}"


def refused_packing(path: Path, name: str) -> str | None:
    """Why a file of the format can't be read, if it is compressed in a way that the format is not."""
    return _unread(program) if (program := _unread_packing(_head(path), format_by_name(name))) else None


def _unread_packing(head: bytes, found: Format) -> str | None:
    """The command that decompresses what begins so, unless the format's files may be like that."""
    program = decompressor(head)
    if program is None or found.recognizes(head):
        return None
    ending = ENDINGS.get(program)
    return None if ending and any(suffix.endswith(ending) for suffix in found.SUFFIXES) else program


def _unread(program: str) -> str:
    return f"is compressed in a way that is not read: decompress it first, with `{program}`"


def names_of_family(family: str) -> Sequence[str]:
    return list(_formats(family))


@cache
def _formats(family: str | None) -> Mapping[str, Format]:
    """Returns the formats that come with the loader, of a family or all."""
    formats = {name: format_by_name(name) for name in built_in()}
    return {name: found for name, found in formats.items() if family in (None, found.FAMILY)}


@cache
def _registry() -> Registry:
    return Registry("data.format", "file format", _modules(), "the name of a module")


def _head(path: Path) -> bytes:
    """Empty for a file that can't be read: opening it tells why."""
    try:
        fd = open_regular(path)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(HEAD_BYTES)

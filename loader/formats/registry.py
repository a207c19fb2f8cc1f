"""Formats by name, and by what a file holds.

Formats in the folder `formats` of a family come with the loader; any other format is named by its module. They are
imported when they are asked for.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

from loader.errors import DataError, UsageError
from loader.files.compression import ENDINGS, READ, decompressor
from loader.files.regular import open_regular
from loader.formats.families import FAMILIES
from loader.formats.format import HEAD_BYTES, Format
from loader.plugins.interface import interface_problem
from loader.plugins.registry import Registry


class UnclearFormatError(UsageError, ValueError):
    """A file may be of any of several formats."""


@cache
def _packages() -> Mapping[str, ModuleType]:
    """Returns the packages of formats, by the family."""
    return {family: importlib.import_module(f"{package}.formats") for family, package in FAMILIES.items()}


@cache
def _modules() -> Mapping[str, str]:
    """The modules of the formats that come with the loader, by the formats' names, in the names' order. Looked up once:
    a run may have thousands of files."""
    names = {
        module.name: f"{package.__name__}.{module.name}"
        for package in _packages().values()
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


def find_format(
    path: Path, *, setting: str, name: str | None = None, family: str | None = None, is_strict: bool = True
) -> str:
    """Finds the name of a file's format: `name` if it is given, else what the file's content says, or else the ending
    of its name. An empty file that none of them claims has the family's default, or that of the first family.

    setting: what its user calls the setting that names the format, for messages. family: formats of that family only.
    Raises UnclearFormatError if several formats claim the file; DataError if none does, or if it is compressed in a way
    that is not read. Without `is_strict` such files have a format, too: who opens them leaves them out.
    """
    head = _head(path)
    if name is not None:
        is_checked = is_strict and name in built_in()
        if is_checked and (program := _unread_packing(head, format_by_name(name))):
            raise DataError(path, _unread(program))
        return name
    claiming = format_of_head(head, path, setting, family)
    if claiming is not None:
        return claiming
    if is_strict and head:
        raise DataError(path, _unclaimed(head, setting, family))
    default: str = _packages()[family or next(iter(FAMILIES))].DEFAULT
    return default


def format_of_head(head: bytes, path: Path, setting: str, family: str | None = None) -> str | None:
    """Returns the name of the format of a file or pipe that begins with these bytes, up to HEAD_BYTES: by them, or else
    by the ending of its name; None if no format claims it. Arguments and UnclearFormatError as for `find_format`."""
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
        raise UnclearFormatError(f"{path}: may be of any of the formats {', '.join(found)}; {setting} says which")
    return found[0] if found else None


def _unclaimed(head: bytes, setting: str, family: str | None) -> str:
    """Says why a file that no format claims can't be read: what names its format, where that helps."""
    if program := decompressor(head):
        if program not in READ:
            return _unread(program)
        return f"is compressed, and its name does not say what is in it; {setting} says which it is"
    for name, each in _formats(None).items():
        if family is not None and each.recognizes(head):
            return (
                f"is in {name}, which holds records of {each.FAMILY}, and those of {family} are read here; "
                "docs/how-to/bring-your-data.md says what can be converted"
            )
    names = ", ".join(names_of_family(family) if family else built_in())
    return f"does not begin as any of the formats {names}; {setting} says which it is"


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

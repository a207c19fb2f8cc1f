"""Finds file formats by name, and by what a file contains.

Formats in the folder `formats` of a family come with the loader; any other format is named by its module. A format is
imported when it is first asked for.
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
from loader.files.compression import ENDING_BY_COMMAND, READABLE_COMMANDS, find_decompress_command
from loader.files.regular import open_regular
from loader.formats.families import FAMILIES
from loader.formats.format import HEAD_BYTES, Format
from loader.plugins.interface import find_interface_problem
from loader.plugins.registry import Registry


class UnclearFormatError(UsageError, ValueError):
    """Raised if a file may have any of several formats, and the user has to say which."""


@cache
def _packages() -> Mapping[str, ModuleType]:
    """Returns the packages that contain formats, by the family."""
    return {family: importlib.import_module(f"{package}.formats") for family, package in FAMILIES.items()}


@cache
def _modules() -> Mapping[str, str]:
    """Returns the names of the modules of bundled formats, by the format's name, sorted. Cached, since a run may have
    thousands of files."""
    names = {
        module.name: f"{package.__name__}.{module.name}"
        for package in _packages().values()
        for module in pkgutil.iter_modules(package.__path__)
    }
    return dict(sorted(names.items()))


def bundled_formats() -> Sequence[str]:
    """Returns the names of the formats that come with the loader, sorted."""
    return list(_modules())


def load_format(name: str) -> Format:
    """Returns a format that comes with the loader, or else the user's module of that dotted name. Raises ValueError if
    there is none, or if it lacks a part of `Format`."""
    found = _registry().find(name)
    if problem := find_interface_problem(found, Format, "a format"):
        raise ValueError(f"data.format: {name}: {problem}")
    return cast(Format, found)


def resolve_format(
    path: Path, *, setting: str, name: str | None = None, family: str | None = None, is_strict: bool = True
) -> str:
    """Finds the name of a file's format: `name` if it is given, else by the file's content, or else by the ending of
    its name. An empty file that no format claims gets the default of the family, or of the first family.

    setting: what error messages call the setting or option that names the format.
    family: accepts only formats of this family.

    Raises UnclearFormatError if several formats claim the file. Raises DataError if none does, or if the file is
    compressed in a way that is not read. Without `is_strict` such files get a format, too, and are left out when they
    are opened.
    """
    if name is not None:
        is_checked = is_strict and name in bundled_formats()
        if is_checked and (program := _unread_packing(_head(path), load_format(name))):
            raise DataError(path, _unread(program))
        return name
    head = _head(path)
    claiming = detect_format(head, path, setting, family)
    if claiming is not None:
        return claiming
    if is_strict and head:
        raise DataError(path, _unclaimed(head, setting, family))
    default: str = _packages()[family or next(iter(FAMILIES))].DEFAULT
    return default


def detect_format(head: bytes, path: Path, setting: str, family: str | None = None) -> str | None:
    """Finds the name of the format of a file or pipe by its first bytes `head`, up to HEAD_BYTES, or else by the ending
    of its name. Returns None if no format claims it. Arguments and UnclearFormatError as for `resolve_format`."""
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
    """Returns the reason why a file that no format claims can't be read, with advice where there is some."""
    if program := find_decompress_command(head):
        if program not in READABLE_COMMANDS:
            return _unread(program)
        return f"is compressed, and its name does not say what is in it; {setting} says which it is"
    for name, each in _formats(None).items():
        if family is not None and each.recognizes(head):
            return (
                f"is in {name}, which holds records of {each.FAMILY}, and those of {family} are read here; "
                "docs/how-to/bring-your-data.md says what can be converted"
            )
    names = ", ".join(formats_of_family(family) if family else bundled_formats())
    return f"does not begin as any of the formats {names}; {setting} says which it is"


def _unread_packing(head: bytes, found: Format) -> str | None:
    """Returns the command that decompresses a file which begins with `head`, if the format can't read it while it is
    compressed. Returns None for a file that is not compressed, or that the format decompresses itself."""
    program = find_decompress_command(head)
    if program is None or found.recognizes(head):
        return None
    ending = ENDING_BY_COMMAND.get(program)
    return None if ending and any(suffix.endswith(ending) for suffix in found.SUFFIXES) else program


def _unread(program: str) -> str:
    return f"is compressed in a way that is not read: decompress it first, with `{program}`"


def formats_of_family(family: str) -> Sequence[str]:
    return list(_formats(family))


@cache
def _formats(family: str | None) -> Mapping[str, Format]:
    """Returns the formats that come with the loader, by name: those of the family, or all."""
    formats = {name: load_format(name) for name in bundled_formats()}
    return {name: found for name, found in formats.items() if family in (None, found.FAMILY)}


@cache
def _registry() -> Registry:
    return Registry("data.format", "file format", _modules(), "the name of a module")


def _head(path: Path) -> bytes:
    """Returns the first HEAD_BYTES of a file; none if it can't be read, since opening it later raises the error."""
    try:
        fd = open_regular(path)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(HEAD_BYTES)

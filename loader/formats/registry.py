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
def _module_names() -> Mapping[str, str]:
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
    return list(_module_names())


def load_format(name: str) -> Format:
    """Returns a format that comes with the loader, or else the user's module of that dotted name. Raises ValueError if
    there is none, or if it lacks a part of `Format`."""
    module = _registry().find(name)
    problem = find_interface_problem(module, Format, "a format")
    if problem:
        raise ValueError(f"data.format: {name}: {problem}")
    return cast(Format, module)


def resolve_format(
    path: Path, *, setting: str, name: str | None = None, family: str | None = None, is_strict: bool = True
) -> str:
    """Returns the name of a file's format: `name` if it is given, else by the file's content, or else by the ending of
    its name. An empty file that no format claims gets the default of the family, or of the first family.

    setting: what error messages call the setting or option that names the format.
    family: accepts only formats of this family.

    Raises UnclearFormatError if several formats claim the file. Raises DataError if none does, or if the file is
    compressed in a way that is not read. Without `is_strict` such files get a format, too, and are left out when they
    are opened.
    """
    if name is not None:
        if is_strict and name in bundled_formats():
            _refuse_unreadable_compression(path, load_format(name))
        return name
    head = _read_head(path)
    detected = detect_format(head, path, setting, family)
    if detected is not None:
        return detected
    if is_strict and head:
        raise DataError(path, _explain_no_format(head, setting, family))
    default: str = _packages()[family or next(iter(FAMILIES))].DEFAULT
    return default


def detect_format(head: bytes, path: Path, setting: str, family: str | None = None) -> str | None:
    """Returns the name of the format of a file or pipe by its first bytes `head`, up to HEAD_BYTES, or else by the
    ending of its name. Returns None if no format claims it. Arguments and UnclearFormatError as for
    `resolve_format`."""
    formats = _load_formats(family)
    by_content = [name for name, file_format in formats.items() if file_format.recognizes(head)]
    by_ending = [name for name, file_format in formats.items() if _has_readable_ending(path, head, file_format)]
    candidates = by_content or by_ending
    if len(by_content) > 1:
        candidates = [name for name in by_content if name in by_ending] or by_content
    if len(candidates) > 1 and family is None:
        # Endings that rows and positions share mean rows, since positions are recognized by their content.
        candidates = [name for name in candidates if formats[name].FAMILY == "rows"] or candidates
    if len(candidates) > 1:
        raise UnclearFormatError(f"{path}: may be of any of the formats {', '.join(candidates)}; {setting} says which")
    return candidates[0] if candidates else None


def _has_readable_ending(path: Path, head: bytes, file_format: Format) -> bool:
    """Returns whether a file has an ending of the format, and is not compressed in a way that the format can't read."""
    return path.name.endswith(tuple(file_format.SUFFIXES)) and not _find_unreadable_compression(head, file_format)


def _explain_no_format(head: bytes, setting: str, family: str | None) -> str:
    """Returns the reason why a file that no format claims can't be read, with advice where there is some."""
    command = find_decompress_command(head)
    if command is not None:
        if command not in READABLE_COMMANDS:
            return _advise_decompression(command)
        return f"is compressed, and its name does not say what is in it; {setting} says which it is"
    if family is None:
        return f"does not begin as any of the formats {', '.join(bundled_formats())}; {setting} says which it is"
    for name, file_format in _load_formats(None).items():
        if file_format.recognizes(head):
            return (
                f"is in {name}, which holds records of {file_format.FAMILY}, and those of {family} are read here; "
                "docs/how-to/bring-your-data.md says what can be converted"
            )
    return f"does not begin as any of the formats {', '.join(formats_of_family(family))}; {setting} says which it is"


def _refuse_unreadable_compression(path: Path, file_format: Format) -> None:
    """Raises DataError for a file that is compressed in a way that its format can't read."""
    command = _find_unreadable_compression(_read_head(path), file_format)
    if command is not None:
        raise DataError(path, _advise_decompression(command))


def _find_unreadable_compression(head: bytes, file_format: Format) -> str | None:
    """Returns the command that decompresses a file which begins with `head`, if the format can't read it while it is
    compressed. Returns None for a file that is not compressed, or that the format decompresses itself."""
    command = find_decompress_command(head)
    if command is None or file_format.recognizes(head):
        return None
    ending = ENDING_BY_COMMAND.get(command)
    if ending is not None and any(suffix.endswith(ending) for suffix in file_format.SUFFIXES):
        return None
    return command


def _advise_decompression(command: str) -> str:
    return f"is compressed in a way that is not read: decompress it first, with `{command}`"


def formats_of_family(family: str) -> Sequence[str]:
    """Returns the names of the bundled formats of a family."""
    return list(_load_formats(family))


@cache
def _load_formats(family: str | None) -> Mapping[str, Format]:
    """Returns the formats that come with the loader, by name: those of the family, or all."""
    formats = {name: load_format(name) for name in bundled_formats()}
    return {name: file_format for name, file_format in formats.items() if family in (None, file_format.FAMILY)}


@cache
def _registry() -> Registry:
    return Registry("data.format", "file format", _module_names(), "the name of a module")


def _read_head(path: Path) -> bytes:
    """Reads the first HEAD_BYTES of a file. Returns no bytes if the file can't be read, since opening it later
    raises the error."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(HEAD_BYTES)

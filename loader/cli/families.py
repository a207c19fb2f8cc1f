"""The families of formats (chess, rows) in the program `loader`: their commands, and their options and tools in the
commands for any data.

A family is found by its name in `loader.formats.families`; no module here imports one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from loader.cli.option_group import with_options
from loader.errors import UsageError
from loader.files.pipes import Input
from loader.formats.families import FAMILIES
from loader.formats.file_tools import Family, FileTools, Options

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

FamilyOptions = Mapping[str, Mapping[str, Any]]  # values of options by name, by the family that has the options


@cache
def families() -> Mapping[str, Family]:
    """Returns the part that each family has in the program `loader`, by the family's name."""
    modules = {name: importlib.import_module(f"{package}.cli.family") for name, package in FAMILIES.items()}
    return {name: cast("Family", module) for name, module in modules.items()}


def with_family_options(command_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that replaces the parameter `options` of a command by the options of all families. The
    command gets their values as FamilyOptions."""
    places: dict[str, Options] = {}
    names: dict[str, list[str]] = {}  # names of options, by the family
    for family_name, family in families().items():
        own = family.OPTIONS.get(command_name, {})
        names[family_name] = [name for options in own.values() for name in options]
        for parameter, options in own.items():
            places[parameter] = {**places.get(parameter, {}), **options}

    def values_by_family(**values: Any) -> FamilyOptions:
        return {family_name: {name: values[name] for name in own} for family_name, own in names.items()}

    return lambda command: with_options(command, "options", places, values_by_family)


class FamilyTools:
    """The tools of all families for one run of a command. Raises UsageError for options that can't be followed."""

    def __init__(self, num_files: int, options: FamilyOptions) -> None:
        self._tools = {name: family.make_tools(num_files, **options[name]) for name, family in families().items()}

    def select(self, file: Input, given: str | None) -> tuple[FileTools, str | None]:
        """Returns the tools of a file's family, and the name of the file's format. `given`: the option --format, which
        alone says the format of a pipe. Raises UsageError, and DataError for a file that no format claims."""
        from loader.formats.registry import bundled_formats, load_format, resolve_format

        if file.is_pipe:
            reader = next(name for name, family in families().items() if family.READS_PIPES)
            return self._tools[reader], given
        if given is not None and given not in bundled_formats():
            raise UsageError(f"--format: {given!r} is none of the formats {', '.join(bundled_formats())}")
        format = resolve_format(file.path, setting="--format", name=given)
        own = load_format(format).FAMILY
        for name, tools in self._tools.items():
            if name != own:
                tools.refuse_options(file.path)
        return self._tools[own], format

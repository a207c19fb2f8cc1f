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
    options_after: dict[str, Options] = {}  # by the parameter that they follow in --help
    names_by_family: dict[str, list[str]] = {}
    for family_name, family in families().items():
        names_by_family[family_name] = []
        for parameter, options in family.OPTIONS.get(command_name, {}).items():
            names_by_family[family_name] += options
            options_after[parameter] = {**options_after.get(parameter, {}), **options}

    def group_by_family(**values: Any) -> FamilyOptions:
        return {family: {name: values[name] for name in names} for family, names in names_by_family.items()}

    return lambda command: with_options(command, "options", options_after, group_by_family)


class FamilyTools:
    """The tools of all families for one run of a command. Raises UsageError for options that can't be followed."""

    def __init__(self, num_files: int, options: FamilyOptions) -> None:
        self._tools = {name: family.make_tools(num_files, **options[name]) for name, family in families().items()}

    def select(self, file: Input, format_option: str | None) -> tuple[FileTools, str | None]:
        """Returns the tools of a file's family, and the name of the file's format. `format_option`: value of --format,
        the only source of a pipe's format. Raises UsageError, and DataError for a file that no format claims."""
        from loader.formats.registry import bundled_formats, load_format, resolve_format

        if file.is_pipe:
            pipe_family = next(name for name, family in families().items() if family.READS_PIPES)
            return self._tools[pipe_family], format_option
        if format_option is not None and format_option not in bundled_formats():
            raise UsageError(f"--format: {format_option!r} is none of the formats {', '.join(bundled_formats())}")
        format_name = resolve_format(file.path, setting="--format", name=format_option)
        file_family = load_format(format_name).FAMILY
        for family, tools in self._tools.items():
            if family != file_family:
                tools.refuse_options(file.path)
        return self._tools[file_family], format_name

"""Finds the source of a stream by its name, and makes the config class that has the source's own settings.

A source is imported when it is first used. It decides itself which file formats it reads (`loader.formats`). The pool
finds sources only through this module. A user's own source is named "module:factory".
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import create_model

from loader.plugins.error_text import format_error_with_location
from loader.plugins.interface import find_call_problem, find_interface_problem, list_methods
from loader.plugins.registry import Registry
from loader.section import Section, find_section_problem
from loader.stream.config import DataConfig
from loader.stream.source import Source

Settings = TypeVar("Settings", bound=DataConfig)

# Calling what a name stands for, without arguments, gives the Source.
SOURCES = Registry(
    "data.source",
    "family of records",
    {
        "chess": "loader.chess.source:ChessSource",
        "rows": "loader.rows.source:RowsSource",
        "synthetic": "loader.stream.synthetic:SyntheticSource",
    },
    "module:factory",
)


def bundled_format_names() -> list[str]:
    """Returns the names that data.format may have without importing a user's code. Imports the formats only when it is
    called."""
    return list(importlib.import_module("loader.formats.registry").bundled_formats())


def create_source(name: str) -> Source:
    """Creates the source of that name: a bundled one, or the result of the user's factory `name` ("module:factory").

    Raises ValueError if there is no such factory, or if what it returns is no `Source`.
    """
    factory = SOURCES.find(name)
    problem = find_call_problem(factory, ())
    if problem:
        raise ValueError(f"data.source: {name} {problem}; allowed: {SOURCES.custom_form}")
    _check_methods_are_defined(name, factory)
    try:
        source = factory()
    except ValueError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise ValueError(f"data.source: {name}: {format_error_with_location(error)}") from error
    if not isinstance(source, Source):
        kind = type(source).__name__
        raise ValueError(f"data.source: {name}: an object of {kind} is no source: derive that class from loader.Source")
    problem = find_interface_problem(source, Source, "a source")
    if problem:
        raise ValueError(f"data.source: {name}: {problem}")
    return source


def _check_methods_are_defined(name: str, factory: Any) -> None:
    """Raises ValueError if `factory` is a class that lacks a method which every source must have."""
    missing_methods = getattr(factory, "__abstractmethods__", ())
    for method, arguments in list_methods(Source):
        if method in missing_methods:
            call = f"{method}({', '.join(arguments)})"
            raise ValueError(f"data.source: {name}: {factory.__name__}.{method} is missing: a source must have {call}")


def source_config_class(name: str, base: type[Settings]) -> type[Settings]:
    """Returns `base`, a config class, extended by the section of the source `name`, if the source has settings of its
    own. Raises ValueError for a section that can't be added."""
    settings_class = create_source(name).settings
    if settings_class is None:
        return base
    problem = find_section_problem(settings_class)
    if problem:
        raise ValueError(f"data.source: {name}: settings{problem}")
    section = name.partition(":")[0].rpartition(".")[2]
    if section.startswith("_"):
        problem = "begins with an underscore"
    elif section in base.model_fields or hasattr(base, section):
        problem = "has the name of a key"
    if problem:
        raise ValueError(
            f"data.source: {name}: the section data.{section} of its settings {problem}; rename the module"
        )
    return cast(type[Settings], _add_section(base, section, settings_class))


@cache
def _add_section(base: type[DataConfig], section: str, settings_class: type[Section]) -> type[DataConfig]:
    """Returns a subclass of `base` with one more field, `section`, of the class `settings_class`. Cached, so that each
    source has one class."""
    fields = {section: (settings_class, settings_class())}
    extended: type[DataConfig] = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)  # type: ignore[call-overload]
    extended.section = section
    return extended


def data_config(**keys: Any) -> DataConfig:
    """Makes the settings of a stream from keys. Settings of the source are a mapping, under the name of its section.

    `data_config(batch_size=100, chess={"features": "chess768"})`. Raises ValueError.
    """
    source = keys.get("source", DataConfig.model_fields["source"].default)
    return source_config_class(source, DataConfig)(**keys)

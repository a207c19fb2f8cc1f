"""Finds what a setting names: a part of this project by its short name, or an object of any other module.

Tasks, sources, formats and optimizers are found this way. A module is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loader.plugins.error_text import format_error_with_location
from loader.plugins.modules import allow_import_from_current_folder


class UnknownNameError(ValueError):
    """Raised if there is no module of that name."""


_PLACES = "neither in the current folder nor where Python looks for modules"


@dataclass(frozen=True)
class Registry:
    """The things of one kind that a setting may name, as all tasks or all formats."""

    key: str  # the setting that names one, as "data.source"
    noun: str
    bundled: Mapping[str, str]  # short name -> "module" or "module:name"
    form: str  # how any other is named, as text for messages

    def find(self, name: str) -> Any:
        """Imports and returns the module or object that `name` stands for. Raises ValueError with a message of one
        line."""
        try:
            return import_object(self.bundled.get(name, name), ours=name in self.bundled)
        except UnknownNameError as error:
            if ":" in name:  # a bundled name has no colon
                raise ValueError(f"{self.key}: {name!r}: {error}, {_PLACES}") from None
            allowed = ", ".join([*sorted(self.bundled), f"or {self.form}"] if self.bundled else [self.form])
            raise ValueError(f"{self.key}: no {self.noun} {name!r}; allowed: {allowed}") from None
        except ValueError as error:
            raise ValueError(f"{self.key}: {error}") from error.__cause__


def import_object(target: str, *, ours: bool = False) -> Any:
    """Imports the module or object of `target`, "module" or "module:name". Unless `ours`, the module may lie in the
    current folder.

    Raises UnknownNameError if there is no such module, and ValueError with the reason if it can't be imported or has no
    such name.
    """
    module, colon, attribute = target.partition(":")
    if not _is_dotted(module) or (colon and not _is_dotted(attribute)):
        raise UnknownNameError(f"no module {module!r}")
    if not ours:
        allow_import_from_current_folder(module)
    try:
        named = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the import of a user's module may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (module == missing or module.startswith(f"{missing}.")):
            raise UnknownNameError(f"no module {module!r}") from None
        raise ValueError(f"module {module!r} can't be imported: {format_error_with_location(error)}") from error
    try:
        for name in attribute.split(".") if colon else ():
            named = getattr(named, name)
    except AttributeError:
        raise ValueError(f"module {module!r} has no {attribute}") from None
    return named


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))

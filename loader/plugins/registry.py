"""Finds what a setting names: a part of this project by its short name, or an object of any other module.

Tasks, sources, formats and optimizers are found this way. A module is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from loader.plugins.error_text import format_error_with_location
from loader.plugins.modules import allow_import_from_current_folder


class UnknownNameError(ValueError):
    """Raised if there is no module of that name."""


@dataclass(frozen=True)
class Registry:
    """The modules or objects of one kind that a setting may name, as all tasks or all formats."""

    key: str  # the setting, as "data.source"
    kind: str  # what the setting names, for messages, as "file format"
    bundled: Mapping[str, str]  # short name -> "module" or "module:name"
    custom_form: str  # how the setting names a user's own one, for messages, as "module:factory"

    def find(self, name: str) -> Any:
        """Imports and returns the module or object that `name` stands for. Raises ValueError with a message of one
        line."""
        try:
            return import_object(self.bundled.get(name, name), ours=name in self.bundled)
        except UnknownNameError as error:
            if ":" in name:  # a bundled name has no colon
                raise ValueError(
                    f"{self.key}: {name!r}: {error}, neither in the current folder nor where Python looks for modules"
                ) from None
            raise ValueError(f"{self.key}: no {self.kind} {name!r}; allowed: {self._describe_allowed()}") from None
        except ValueError as error:
            raise ValueError(f"{self.key}: {error}") from error.__cause__

    def _describe_allowed(self) -> str:
        if not self.bundled:
            return self.custom_form
        return ", ".join([*sorted(self.bundled), f"or {self.custom_form}"])


def import_object(target: str, *, ours: bool = False) -> Any:
    """Imports the module or object of `target`, "module" or "module:name". Unless `ours`, the module may lie in the
    current folder.

    Raises UnknownNameError if there is no such module, and ValueError with the reason if it can't be imported or has no
    such name.
    """
    module_name, colon, attribute_path = target.partition(":")
    if not _is_dotted_name(module_name) or (colon and not _is_dotted_name(attribute_path)):
        raise UnknownNameError(f"no module {module_name!r}")
    if not ours:
        allow_import_from_current_folder(module_name)
    imported: Any = _import_module(module_name)
    if not colon:
        return imported
    try:
        for attribute in attribute_path.split("."):
            imported = getattr(imported, attribute)
    except AttributeError:
        raise ValueError(f"module {module_name!r} has no {attribute_path}") from None
    return imported


def _import_module(name: str) -> ModuleType:
    """Imports a module. Raises UnknownNameError if there is none of this name, ValueError if its import fails."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the import of a user's module may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise UnknownNameError(f"no module {name!r}") from None
        raise ValueError(f"module {name!r} can't be imported: {format_error_with_location(error)}") from error


def _is_dotted_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))

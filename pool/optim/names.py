"""Loads classes of optimizers and schedules by dotted name, and suggests a name for one that is misspelled."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

from loader.plugins.registry import import_object
from pool.errors import ConfigError

# modules in which to look for similar names, by section of the config
PLACES = {"optimizer": ("torch.optim", "pool.optim"), "schedule": ("torch.optim.lr_scheduler",)}
_NO_CHOICE = ("Optimizer", "LRScheduler", "_LRScheduler")


def load_class(name: str, key: str) -> Any:
    """Imports and returns the class with a dotted name. Raises ConfigError with the config's key."""
    module, _, class_name = name.rpartition(".")
    try:
        if not module:
            raise ValueError("a dotted name is needed, module.Class")
        made = import_object(f"{module}:{class_name}")
        if not callable(made):
            raise ValueError("it is no class")
    except ValueError as error:
        raise ConfigError(f"{key}: {name!r} can't be loaded: {error}{_suggestion(name, key)}") from None
    return made


def _suggestion(name: str, key: str) -> str:
    """Returns the end of an error message that suggests a similar class name; "" if none is similar."""
    known: dict[str, list[str]] = {}  # by class name in small letters
    for place in PLACES.get(key.partition(".")[0], ()):
        for known_name, value in vars(importlib.import_module(place)).items():
            if inspect.isclass(value) and value.__module__.startswith(place) and known_name not in _NO_CHOICE:
                known.setdefault(known_name.lower(), []).append(f"{place}.{known_name}")
    close = difflib.get_close_matches(name.rpartition(".")[2].lower(), known, n=1, cutoff=0.75)
    return f"; did you mean {' or '.join(known[close[0]])}?" if close else ""

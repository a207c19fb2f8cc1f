"""Constructs optimizers and schedulers with the arguments of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from loader.plugins.error_text import format_error
from pool.errors import ConfigError


class Settings(Protocol):
    """A section of the config that names a class and its arguments."""

    @property
    def name(self) -> str | None: ...
    @property
    def args(self) -> Mapping[str, Any]: ...


def construct(make: Any, first: Any, config: Settings, key: str) -> Any:
    """Calls the class `make` with `first` and the config's arguments, and returns the instance.

    Raises ConfigError, with the key, for whatever the class raises.
    """
    try:
        return make(first, **lists_to_tuples(config.args))
    except (Exception, SystemExit) as error:  # a class of the user's choice may raise anything
        raise ConfigError(f"{key}: {config.name}: {format_error(error)}") from None


def lists_to_tuples(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments with lists replaced by tuples. torch expects tuples (betas), which TOML and JSON do not
    have."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in args.items()}

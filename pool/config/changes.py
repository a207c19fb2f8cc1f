"""Parses and applies changes to a config from the command line, `--set section.key=value`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pool.config.key_path import field_at, is_untyped
from pool.errors import ConfigError


def parse_toml_value(text: str) -> Any:
    """Parses a value as a TOML file has it. Raises ValueError if it is not one TOML value, and RecursionError."""
    document = tomllib.loads(f"value = {text}")
    if document.keys() != {"value"}:
        raise ValueError("a line end, and more keys behind it")
    return document["value"]


@dataclass(frozen=True)
class Change:
    """Holds a new value for a key of the config."""

    key: str
    value: Any
    is_toml: bool  # False: the value is plain text

    @classmethod
    def parse(cls, text: str) -> Change:
        """Parses `section.key=value`. The value is TOML if it can be parsed as such, or else plain text. Raises
        ConfigError."""
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set {text}: expected section.key=value")
        try:
            return cls(key, parse_toml_value(value), is_toml=True)
        except RecursionError:
            raise ConfigError(f"--set {key}: nested too deeply") from None
        except ValueError:
            return cls(key, value, is_toml=False)

    def apply(self, tree: dict[str, Any]) -> None:
        """Sets the key in `tree`, a config as plain data, which is modified. Raises ConfigError."""
        *sections, name = self.key.split(".")
        for part in sections:
            tree = tree.setdefault(part, {})
            if not isinstance(tree, dict):
                raise ConfigError(f"--set {self.key}: {part} is not a section")
        tree[name] = self.value

    def check_is_quoted(self, cls: type[BaseModel], option: str = "--set") -> None:
        """Raises ConfigError for text without quotes at a key that allows any type.

        Otherwise a mistyped number such as 1e-3x would be accepted as text. `option` is the command line's option,
        for the message.
        """
        field = field_at(cls, self.key.split("."))
        if not self.is_toml and isinstance(field, FieldInfo) and is_untyped(field):
            quoted = f'{self.key}="{self.value}"'
            raise ConfigError(
                f"{option} {self.key}={self.value}: not a TOML value; text needs quotes here: {option} '{quoted}'"
            )

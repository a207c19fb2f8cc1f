"""Changes to a config from the command line: `--set section.key=value`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pool.config.key_path import field_at, is_untyped
from pool.errors import ConfigError


def toml_value(text: str) -> Any:
    """A value as a config file has it. Raises ValueError for any other text, RecursionError."""
    document = tomllib.loads(f"value = {text}")
    if document.keys() != {"value"}:
        raise ValueError("a line end, and more keys behind it")
    return document["value"]


@dataclass(frozen=True)
class Change:
    key: str
    value: Any
    is_toml: bool  # false: the value is the text as it stands

    @classmethod
    def parse(cls, text: str) -> Change:
        """Parses `section.key=value`; the value is TOML, or else text as it stands. Raises ConfigError."""
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set {text}: expected section.key=value")
        try:
            return cls(key, toml_value(value), is_toml=True)
        except RecursionError:
            raise ConfigError(f"--set {key}: nested too deeply") from None
        except ValueError:
            return cls(key, value, is_toml=False)

    def apply(self, tree: dict[str, Any]) -> None:
        """Changes `tree`. Raises ConfigError."""
        *sections, name = self.key.split(".")
        for part in sections:
            tree = tree.setdefault(part, {})
            if not isinstance(tree, dict):
                raise ConfigError(f"--set {self.key}: {part} is not a section")
        tree[name] = self.value

    def check_quotes(self, cls: type[BaseModel], option: str = "--set") -> None:
        """Raises ConfigError for text without quotes where any type is allowed: nothing else would notice 1e-3x."""
        field = field_at(cls, self.key.split("."))
        if not self.is_toml and isinstance(field, FieldInfo) and is_untyped(field):
            quoted = f'{self.key}="{self.value}"'
            raise ConfigError(
                f"{option} {self.key}={self.value}: not a TOML value; text needs quotes here: {option} '{quoted}'"
            )

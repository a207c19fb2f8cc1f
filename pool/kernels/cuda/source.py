"""What is compiled: a file of `kernels/` with the constants that it is compiled for. Free of torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"
_BOUNDS = re.compile(r"KERNEL\((\d+), \d+\)\s*(\w+)\(")


@dataclass(frozen=True)
class Source:
    """A file and its constants, by name; hashable, so that a program is compiled once."""

    file: str
    constants: tuple[tuple[str, int | str], ...]

    @classmethod
    def of(cls, file: str, **constants: int | str) -> Source:
        return cls(file, tuple(sorted(constants.items())))

    @property
    def text(self) -> str:
        return _text(self.file)

    @property
    def options(self) -> list[str]:
        return [f"-D{name}={value}" for name, value in self.constants]

    def __str__(self) -> str:
        return " ".join([self.file, *(f"{name}={value}" for name, value in self.constants)])


def headers() -> Mapping[str, str]:
    """What the sources include, by name."""
    return {path.name: _text(path.name) for path in sorted(FOLDER.glob("*.cuh"))}


def kernels(file: str) -> Mapping[str, int]:
    """The kernels of a file and the most threads that a block of each may have."""
    return {name: int(threads) for threads, name in _BOUNDS.findall(_text(file))}


@cache
def _text(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")

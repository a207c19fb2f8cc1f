"""Fields of a batch by name; a name that is not there is told which are."""

from __future__ import annotations

from typing import NoReturn, TypeVar

T = TypeVar("T")


class Fields(dict[str, T]):
    """A dict whose KeyError names the fields that there are."""

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(f"the batch has no field {name!r} of this kind; there are {', '.join(self) or 'none'}")

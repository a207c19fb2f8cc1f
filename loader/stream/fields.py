"""A dict of a batch's fields by name, with an error that lists the names."""

from __future__ import annotations

from typing import NoReturn, TypeVar

T = TypeVar("T")


class Fields(dict[str, T]):
    """A dict whose KeyError for an unknown name lists the names that exist."""

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(f"the batch has no field {name!r} of this kind; there are {', '.join(self) or 'none'}")

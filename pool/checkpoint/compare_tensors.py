"""Compares a checkpoint's tensors with those of a model, and names the first that differs. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pool.checkpoint.tensor_file import DTYPES, Header
from pool.run_folder.strict_json import printable


class NamedTensor(Protocol):
    """A parameter or buffer, as a model describes it."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str:
        """The name of the dtype in torch, e.g. float32."""


def first_difference(header: Header, model: Iterable[NamedTensor]) -> str | None:
    """The first tensor, in the model's order, that differs in name, shape or dtype; None if all are the same."""
    tensors = list(model)
    for tensor in tensors:
        entry = header.get(tensor.name)
        own = _described(tensor.dtype, tensor.shape)
        if entry is None:
            return f"{tensor.name}: {own} in the config's model, not in the checkpoint"
        if (saved := _described(DTYPES[entry.dtype][0], entry.shape)) != own:
            return f"{tensor.name}: {own} in the config's model, {saved} in the checkpoint"
    if more := header.keys() - {tensor.name for tensor in tensors}:
        return f"{printable(min(more))}: in the checkpoint, not in the config's model"
    return None


def _described(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} {' x '.join(map(str, shape)) or 'scalar'}"

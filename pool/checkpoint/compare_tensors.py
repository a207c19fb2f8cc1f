"""Compares a checkpoint's tensors with those of a model, and names the first that differs. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pool.checkpoint.tensor_file import DTYPES, Header
from pool.run_folder.strict_json import printable

Forms = Mapping[str, str]  # dtype and shape of tensors, in words, by name


class NamedTensor(Protocol):
    """A parameter or buffer, as a model describes it."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str:
        """The name of the dtype in torch, e.g. float32."""


def first_difference(saved: Forms, model: Forms) -> str | None:
    """The first tensor, in the model's order, that differs in name, shape or dtype; None if all are the same."""
    for name, own in model.items():
        if name not in saved:
            return f"{name}: {own} in the config's model, not in the checkpoint"
        if saved[name] != own:
            return f"{name}: {own} in the config's model, {saved[name]} in the checkpoint"
    if more := saved.keys() - model.keys():
        return f"{printable(min(more))}: in the checkpoint, not in the config's model"
    return None


def forms_of(model: Iterable[NamedTensor]) -> Forms:
    return {tensor.name: form(tensor.dtype, tensor.shape) for tensor in model}


def forms_in(header: Header) -> Forms:
    return {name: form(DTYPES[entry.dtype][0], entry.shape) for name, entry in header.items()}


def form(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype} {' x '.join(map(str, shape)) or 'scalar'}"

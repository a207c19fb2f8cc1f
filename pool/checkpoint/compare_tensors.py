"""Compares the names, dtypes and shapes of a checkpoint's tensors with those of a model. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pool.checkpoint.tensor_file import DTYPES, Header
from pool.run_folder.strict_json import printable

TensorSpecs = Mapping[str, str]  # dtype and shape of tensors as text, by name


class NamedTensor(Protocol):
    """The name, shape and dtype of a parameter or buffer of a model."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str:
        """Returns the name of the dtype in torch, e.g. float32."""


def first_difference(saved: TensorSpecs, model: TensorSpecs) -> str | None:
    """Describes the first tensor, in the model's order, whose name, shape or dtype differs between checkpoint and
    model.

    Returns None if all tensors match.
    """
    for name, spec in model.items():
        if name not in saved:
            return f"{name}: {spec} in the config's model, not in the checkpoint"
        if saved[name] != spec:
            return f"{name}: {spec} in the config's model, {saved[name]} in the checkpoint"
    additional = saved.keys() - model.keys()
    if additional:
        return f"{printable(min(additional))}: in the checkpoint, not in the config's model"
    return None


def model_specs(model: Iterable[NamedTensor]) -> TensorSpecs:
    """Returns dtype and shape of each of a model's tensors as text, by name."""
    return {tensor.name: format_spec(tensor.dtype, tensor.shape) for tensor in model}


def header_specs(header: Header) -> TensorSpecs:
    """Returns dtype and shape of each tensor in a file's header as text, by name."""
    return {name: format_spec(DTYPES[entry.dtype][0], entry.shape) for name, entry in header.items()}


def format_spec(dtype: str, shape: Sequence[int]) -> str:
    """Describes dtype and shape of a tensor as text, e.g. `float32 256 x 32`."""
    return f"{dtype} {' x '.join(map(str, shape)) or 'scalar'}"

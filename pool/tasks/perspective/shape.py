"""The shape of a network, from the section [model]: what tensors it has. Free of torch.

Tensors are named as in bullet's examples: l0w and l0b for the first layer, l0f for its factoriser, then l1w, l1b, ...
Floats are numpy arrays: l0w [inputs, N], l0f [768, N], l0b [N]; of the others lkw [B, outputs, inputs] and lkb
[B, outputs], where B is the number of output buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.output_buckets import num_buckets
from pool.tasks.chess.positions import Inputs
from pool.tasks.perspective.config import ModelConfig

FACTORISED = "^"  # ends the name of pieces with virtual inputs

Floats = Mapping[str, npt.NDArray[np.float32]]


def real_features(features: str) -> str:
    """The name of a feature set without virtual inputs."""
    return features.replace(FACTORISED, "")


def factorised_features(features: str) -> str:
    """The name of a feature set with virtual inputs beside its pieces."""
    pieces, plus, relations = features.partition(" + ")
    return f"{pieces}{FACTORISED}{plus}{relations}"


@dataclass(frozen=True)
class Shape:
    """The numbers of a network's inputs and outputs, and its activations."""

    inputs: Inputs  # of the exported network: without virtual ones
    num_real: int
    num_virtual: int
    width: int
    activation: str
    hidden: tuple[int, ...]
    hidden_activation: str
    output_buckets: str | tuple[int, ...]
    buckets: int

    def virtual_rows(self) -> npt.NDArray[np.int64]:
        """Returns the row of l0f that is added to each of the first rows of l0w: those of pieces; behind them relations
        have none."""
        rows: npt.NDArray[np.int64] = _native.virtual_features(*self.inputs).astype(np.int64) - self.num_real
        return rows[rows < self.num_virtual]

    def fold(self, floats: Floats) -> Floats:
        """Returns the network without a factoriser: l0f is added to the rows of l0w."""
        if not self.num_virtual:
            return floats
        rest = {name: values for name, values in floats.items() if name != "l0f"}
        folded, rows = floats["l0w"].copy(), self.virtual_rows()
        folded[: len(rows)] += floats["l0f"][rows]
        return {**rest, "l0w": folded}

    @property
    def layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer behind the first."""
        outputs = [*self.hidden, 1]
        return list(
            zip([self.width if self.activation == "pairwise" else 2 * self.width, *self.hidden], outputs, strict=True)
        )

    @property
    def in_words(self) -> str:
        layers = "".join(f" -> {outputs}" for _, outputs in self.layers)
        return f"({self.num_real} -> {self.width})x2{layers}" + (f", {self.buckets} times" if self.buckets > 1 else "")

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name."""
        shapes: dict[str, tuple[int, ...]] = {"l0w": (self.num_real, self.width), "l0b": (self.width,)}
        if self.num_virtual:
            shapes["l0f"] = (self.num_virtual, self.width)
        for number, (inputs, outputs) in enumerate(self.layers, 1):
            shapes[f"l{number}w"] = (self.buckets, outputs, inputs)
            shapes[f"l{number}b"] = (self.buckets, outputs)
        return shapes


def shape_of(model: ModelConfig) -> Shape:
    """Returns the shape of the section's network. Raises ValueError if there is none."""
    if model.features is None or model.output_buckets is None:
        raise ValueError("model.features and model.output_buckets: not set, and there is no [data.chess] to have them")
    inputs = Inputs(real_features(model.features), model.king_buckets or ())
    try:
        real = _native.describe_feature_set(*inputs)[0]
        virtual = _native.describe_feature_set(model.features, inputs.king_buckets)[0] - real
    except ValueError as error:
        raise ValueError(f"data.chess.{error}") from None
    return Shape(
        inputs=inputs,
        num_real=real,
        num_virtual=virtual,
        width=model.width,
        activation=model.activation,
        hidden=model.hidden,
        hidden_activation=model.hidden_activation,
        output_buckets=model.output_buckets,
        buckets=num_buckets(model.output_buckets),
    )


def input_by_input(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a tensor as bullet stores it: all outputs of input 0, all of input 1, ...; outputs are bucket by
    bucket."""
    if name.startswith("l0") or values.ndim < 3:
        return values.reshape(-1, values.shape[-1])
    return values.reshape(-1, values.shape[-1]).T


def output_by_output(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a tensor as bullet stores it if it is transposed; one of a bias has no other form."""
    if name.startswith("l0"):
        return values.reshape(-1, values.shape[-1]).T
    return values.reshape(-1, values.shape[-1])


def from_input_by_input(name: str, flat: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Does the inverse of `input_by_input`, from numbers one after the other."""
    if name.startswith("l0") or len(shape) < 3:
        return flat.reshape(shape)
    return np.ascontiguousarray(flat.reshape(shape[-1], -1).T).reshape(shape)


def from_output_by_output(name: str, flat: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Does the inverse of `output_by_output`, from numbers one after the other."""
    if name.startswith("l0") and len(shape) == 2:
        return np.ascontiguousarray(flat.reshape(shape[1], shape[0]).T)
    return flat.reshape(shape)

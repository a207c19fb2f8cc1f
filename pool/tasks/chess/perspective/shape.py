"""Describes the shape of a network, as the section [model] sets it: which tensors it has. Free of torch.

Tensors are named as in bullet's examples: l0w and l0b for the first layer, l0f for its factoriser (rows that are added
under every king bucket), then l1w, l1b, and so on. lkfw and lkfb are the parts of layer k that all output buckets
share. Floats are numpy arrays. l0w is [inputs, N], l0f [768, N], l0b [N]. The others, for B output buckets, are lkw [B,
outputs, inputs], lkb [B, outputs], lkfw [outputs, inputs] and lkfb [outputs]. l0w[pieces], l0w[threats] and
l0w[pawn_pairs] are rows of l0w.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.output_buckets import num_buckets
from pool.tasks.chess.perspective.config import BLOCKS, ModelConfig
from pool.tasks.chess.positions import Inputs

FACTORISED = "^"  # suffix of the name of piece features with virtual inputs

Floats = Mapping[str, npt.NDArray[np.float32]]


def real_features(features: str) -> str:
    """Returns the name of a feature set without its virtual inputs."""
    return features.replace(FACTORISED, "")


def factorised_features(features: str) -> str:
    """Returns the name of a feature set with virtual inputs added to its pieces."""
    pieces, plus, relations = features.partition(" + ")
    return f"{pieces}{FACTORISED}{plus}{relations}"


@dataclass(frozen=True)
class Shape:
    """The sizes of a network's inputs, layers and outputs, and its activations."""

    inputs: Inputs  # of the exported network, without virtual inputs
    num_real: int
    num_virtual: int
    num_inputs: int  # in a batch: real inputs, a few that are never active, virtual inputs
    width: int
    activation: str
    hidden: tuple[int, ...]
    hidden_activation: tuple[str, ...]  # of each hidden layer
    skip: bool
    factorised_layers: tuple[int, ...]
    output_buckets: str | tuple[int, ...]
    buckets: int

    @property
    def first_virtual(self) -> int:
        """The number of the first virtual input in a batch."""
        return self.num_inputs - self.num_virtual

    def virtual_rows(self) -> npt.NDArray[np.int64]:
        """Returns the row of l0f that is added to each of the first rows of l0w, those of pieces. The rows of
        relations, which follow, have none."""
        rows: npt.NDArray[np.int64] = _native.virtual_features(*self.inputs).astype(np.int64) - self.first_virtual
        return rows[rows < self.num_virtual]

    def merge_factorisers(self, floats: Floats, kept: Collection[str] = ()) -> Floats:
        """Adds the factorisers to their tensors, and returns the tensors without them. Those named in `kept` stay as
        they are."""
        folded = {name: values for name, values in floats.items() if name not in self.factorisers or name in kept}
        for name, target in self.factorisers.items():
            if name in kept:
                continue
            if name == "l0f":
                rows = self.virtual_rows()
                folded[target] = floats[target].copy()
                folded[target][: len(rows)] += floats[name][rows]
            else:
                folded[target] = floats[target] + floats[name]
        return folded

    @property
    def factorisers(self) -> dict[str, str]:
        """The name of the tensor that each factoriser is added to, by the factoriser's name."""
        names = {"l0f": "l0w"} if self.num_virtual else {}
        return names | {f"l{layer}f{kind}": f"l{layer}{kind}" for layer in self.factorised_layers for kind in "wb"}

    @property
    def blocks(self) -> dict[str, slice]:
        """The rows of l0w[pieces], l0w[threats] and l0w[pawn_pairs], by name. It is empty if the inputs are pieces
        alone."""
        threats, pairs = _native.relation_inputs(*self.inputs)
        if not threats:
            return {}
        ends = accumulate((self.num_real - threats - pairs, threats, pairs), initial=0)
        rows = (slice(first, end) for first, end in pairwise(ends))
        return {f"l0w[{name}]": part for name, part in zip(BLOCKS, rows, strict=True) if part.start < part.stop}

    @property
    def layers(self) -> list[tuple[int, int]]:
        """The numbers of inputs and outputs of each layer behind the first."""
        hidden = list(zip(self.hidden, self.hidden_activation, strict=True))
        activations = [2 * size if activation == "dual" else size for size, activation in hidden]
        inputs = [self.width if self.activation == "pairwise" else 2 * self.width, *activations]
        if self.skip:
            inputs[-1] = sum(activations)
        outputs = [2 * size if activation == "gated" else size for size, activation in hidden]
        return list(zip(inputs, [*outputs, 1], strict=True))

    def describe(self) -> str:
        """Returns a short text of the shape, such as (768 -> 128)x2 -> 1, 8 times."""
        layers = "".join(f" -> {outputs}" for outputs in (*self.hidden, 1))
        return f"({self.num_real} -> {self.width})x2{layers}" + (f", {self.buckets} times" if self.buckets > 1 else "")

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the network's tensors, by name."""
        shapes: dict[str, tuple[int, ...]] = {"l0w": (self.num_real, self.width), "l0b": (self.width,)}
        if self.num_virtual:
            shapes["l0f"] = (self.num_virtual, self.width)
        for number, (inputs, outputs) in enumerate(self.layers, 1):
            shapes[f"l{number}w"] = (self.buckets, outputs, inputs)
            shapes[f"l{number}b"] = (self.buckets, outputs)
            if number in self.factorised_layers:
                shapes[f"l{number}fw"] = (outputs, inputs)
                shapes[f"l{number}fb"] = (outputs,)
        return shapes

    def sizes(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor, or of a block of l0w."""
        rows = self.blocks.get(name)
        return self.tensors[name] if rows is None else (rows.stop - rows.start, self.width)

    def select(self, floats: Floats, name: str) -> npt.NDArray[np.float32]:
        """Returns a tensor by name, or a block of l0w."""
        rows = self.blocks.get(name)
        return floats[name] if rows is None else floats["l0w"][rows]

    def join_blocks(self, floats: Floats) -> dict[str, npt.NDArray[np.float32]]:
        """Returns the tensors with l0w as a whole. `floats` may hold it in blocks."""
        blocks = [name for name in self.blocks if name in floats]
        whole = {name: values for name, values in floats.items() if name not in blocks}
        return {"l0w": np.concatenate([floats[name] for name in blocks]), **whole} if blocks else whole


def make_shape(model: ModelConfig) -> Shape:
    """Returns the shape of the network that the section describes. Raises ValueError if the section describes none."""
    if model.features is None or model.output_buckets is None:
        raise ValueError("model.features and model.output_buckets: not set, and there is no [data.chess] to have them")
    inputs = Inputs(real_features(model.features), model.king_buckets or ())
    try:
        real = _native.describe_feature_set(*inputs)[0]
        every = _native.describe_feature_set(model.features, inputs.king_buckets)[0]
    except ValueError as error:
        raise ValueError(f"data.chess.{error}") from None
    if outside := [layer for layer in model.factorised_layers if layer > len(model.hidden) + 1]:
        raise ValueError(
            f"model.factorised_layers: there is no layer {outside[0]}; the last is {len(model.hidden) + 1}"
        )
    if model.skip and len(model.hidden) < 2:
        raise ValueError("model.skip: model.hidden must have two layers or more for one to be skipped")
    return Shape(
        inputs=inputs,
        num_real=real,
        num_virtual=every - int(_native.virtual_features(*inputs)[0]) if every > real else 0,
        num_inputs=every,
        width=model.width,
        activation=model.activation,
        hidden=model.hidden,
        hidden_activation=_activation_of_layers(model),
        skip=model.skip,
        factorised_layers=tuple(sorted(set(model.factorised_layers))),
        output_buckets=model.output_buckets,
        buckets=num_buckets(model.output_buckets),
    )


def _activation_of_layers(model: ModelConfig) -> tuple[str, ...]:
    """Returns the activation of each hidden layer. Raises ValueError if the section lists another number of them."""
    given, layers = model.hidden_activation, len(model.hidden)
    if isinstance(given, str):
        return (given,) * layers
    if len(given) != layers:
        raise ValueError(f"model.hidden_activation: {len(given)} activations, but model.hidden has {layers} layers")
    return given

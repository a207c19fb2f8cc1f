"""Describes layer stacks for CUDA kernels: the structure that stacks.cuh calls Form, and the sizes of their
parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate

from pool._native import structure
from pool.kernels.cuda.launcher import Float, UInt32

MAX_HIDDEN = 4
_HIDDEN_NBYTES = 20  # size of Hidden in stacks.cuh
MAX_OUTPUTS = 64  # of a layer; wider ones are computed bucket by bucket by a library


class LayerActivation(IntEnum):
    """Activations of a layer's outputs y. All are clipped to 0 .. highest."""

    CRELU = 0  # y
    SCRELU = 1  # y clipped, then squared
    BOTH = 2  # y * y * square of all, then y of all


@dataclass(frozen=True)
class HiddenLayer:
    """Describes a hidden layer. Only its first `active` outputs have activations."""

    outputs: int
    active: int
    kind: LayerActivation
    square: float = 1.0

    @property
    def activations(self) -> int:
        """The number of inputs that this layer gives to the next one."""
        return 2 * self.active if self.kind == LayerActivation.BOTH else self.active


@dataclass(frozen=True, eq=False)
class CudaStackSpec:
    """Describes the layers of a stack: the hidden layers, then a layer with one output. The first of them is the wide
    one, whose inputs are the first layer's activations. Compared by identity, as launches cache what they need of a
    form."""

    hidden: tuple[HiddenLayer, ...]
    highest: float = 1.0
    all_activations: bool = False  # the last layer sees all hidden layers' activations, else those of the last one
    skip: int = 0  # first layer's outputs added to the result: 1: its last; 2: its last but one minus its last
    one: float = 0.0  # activations are cut down to multiples of 1 / one before they are clipped; 0: they are not

    @cached_property
    def outputs(self) -> list[int]:
        """The number of outputs of each layer."""
        return [*(layer.outputs for layer in self.hidden), 1]

    def inputs(self, wide: int) -> list[int]:
        """Returns the number of inputs of each layer. `wide` are those of the first."""
        activations = [layer.activations for layer in self.hidden]
        if activations and self.all_activations:
            activations[-1] = sum(activations)
        return [wide, *activations]

    @property
    def row(self) -> int:
        """The number of values in a sample's row of the hidden layers' outputs."""
        return self._begins[-1]

    @property
    def supports(self) -> bool:
        """Whether the kernels can compute stacks of this form."""
        return len(self.hidden) <= MAX_HIDDEN and max(self.outputs) <= MAX_OUTPUTS

    def columns(self, wide: int) -> list[int]:
        """Returns the offset of each parameter among the numbers of one stack (weight and bias of each layer in turn),
        and last their total."""
        sizes = []
        for outputs, inputs in zip(self.outputs, self.inputs(wide), strict=True):
            sizes += [outputs * inputs, outputs]
        return [0, *accumulate(sizes)]

    @cached_property
    def constants(self) -> dict[str, int]:
        """The constants for which sources that include stacks.cuh are compiled."""
        return {"HIDDEN": len(self.hidden), "ALL": int(self.all_activations), "CUT": int(self.one > 0)}

    @cached_property
    def structure(self) -> bytes:
        """The form as the bytes of the structure that kernels take."""
        layers = [
            structure(
                numbers=(UInt32, [layer.outputs, layer.active, layer.kind, begin]), square=(Float, [layer.square])
            )
            for layer, begin in zip(self.hidden, self._begins, strict=False)
        ]
        tail = structure(
            highest=(Float, [self.highest]), numbers=(UInt32, [self.row, self.skip]), one=(Float, [self.one])
        )
        return b"".join(layers or [bytes(_HIDDEN_NBYTES)]) + tail

    @cached_property
    def _begins(self) -> list[int]:
        """The offset of each hidden layer's outputs in a sample's row, in multiples of 4, and the row's length."""
        return [0, *accumulate(-(-layer.outputs // 4) * 4 for layer in self.hidden)]


def pack_borders(borders: Sequence[int]) -> bytes:
    """Returns the first sample of each bucket, and the end of the last, as the bytes of the structure in
    borders.cuh."""
    return structure(at=(UInt32, borders))

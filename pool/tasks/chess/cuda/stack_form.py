"""The form of layer stacks: what stacks.cuh calls Form, and the numbers of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate, chain

from pool._native import structure
from pool.kernels.cuda.launcher import Float, UInt32

MOST_HIDDEN = 4
_HIDDEN_NBYTES = 20  # of Hidden in stacks.cuh
MOST_OUTPUTS = 64  # of a layer: the products of wider ones are a library's, bucket by bucket


class Kind(IntEnum):
    """Activations of a layer's outputs y; all are clipped to 0 .. highest."""

    CRELU = 0  # y
    SCRELU = 1  # y, squared when it is clipped
    BOTH = 2  # y * y * square of all, then y of all


@dataclass(frozen=True)
class Hidden:
    """A hidden layer; the first `active` outputs have activations."""

    outputs: int
    active: int
    kind: Kind
    square: float = 1.0

    @property
    def activations(self) -> int:
        return 2 * self.active if self.kind == Kind.BOTH else self.active


@dataclass(frozen=True, eq=False)
class StackForm:
    """Hidden layers, the wide one first, then a layer with one output. Without hidden layers that is the wide one. What
    a launch needs of a form is kept by its identity."""

    hidden: tuple[Hidden, ...]
    highest: float = 1.0
    all_activations: bool = False  # the last layer sees those of all hidden layers, not the last one's alone
    skip: int = 0  # outputs of the first layer added to the result: its last; or its last but one minus its last
    one: float = 0.0  # activations are cut to the multiples of 1 / one below before they are clipped; 0: they are not

    @cached_property
    def outputs(self) -> list[int]:
        """The outputs of each layer."""
        return [*(layer.outputs for layer in self.hidden), 1]

    def inputs(self, wide: int) -> list[int]:
        """The inputs of each layer."""
        behind = [layer.activations for layer in self.hidden]
        if behind and self.all_activations:
            behind[-1] = sum(behind)
        return [wide, *behind]

    @property
    def row(self) -> int:
        """Counts the numbers in a sample's row of the hidden layers' outputs."""
        return self._begins[-1]

    @property
    def serves(self) -> bool:
        """Says whether the kernels take it."""
        return len(self.hidden) <= MOST_HIDDEN and max(self.outputs) <= MOST_OUTPUTS

    def columns(self, wide: int) -> list[int]:
        """Returns where the numbers of each parameter begin among those of one stack, weight and bias of each layer in
        turn; and how many there are."""
        pairs = ((outputs * inputs, outputs) for outputs, inputs in zip(self.outputs, self.inputs(wide), strict=True))
        return [0, *accumulate(chain.from_iterable(pairs))]

    @cached_property
    def constants(self) -> dict[str, int]:
        """The constants that sources which include stacks.cuh are compiled for."""
        return {"HIDDEN": len(self.hidden), "ALL": int(self.all_activations), "CUT": int(self.one > 0)}

    @cached_property
    def structure(self) -> bytes:
        """The form as kernels take it."""
        layers = [
            structure(
                numbers=(UInt32, [layer.outputs, layer.active, layer.kind, begin]), square=(Float, [layer.square])
            )
            for layer, begin in zip(self.hidden, self._begins, strict=False)
        ]
        rest = structure(
            highest=(Float, [self.highest]), numbers=(UInt32, [self.row, self.skip]), one=(Float, [self.one])
        )
        return b"".join(layers or [bytes(_HIDDEN_NBYTES)]) + rest

    @cached_property
    def _begins(self) -> list[int]:
        return [0, *accumulate(-(-layer.outputs // 4) * 4 for layer in self.hidden)]


def borders_of(borders: Sequence[int]) -> bytes:
    """Returns where each bucket's samples begin, as kernels take it (borders.cuh): one more than there are buckets."""
    return structure(at=(UInt32, borders))

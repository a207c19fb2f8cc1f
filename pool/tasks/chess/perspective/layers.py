"""The layers that follow the first one: their parameters, their activations, and their description for the fused
kernels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pool.tasks.chess.layer_stacks import HiddenLayer, Kernels, StackSpec
from pool.tasks.chess.perspective.shape import Shape
from pool.tasks.chess.quantization import Rounding
from pool.tasks.chess.training.fake_quantization import fake_round

log = logging.getLogger(__name__)


class StackedLinear(nn.Module):
    """A linear layer with parameters of its own for each output bucket. Samples come ordered by bucket. weight is [B,
    outputs, inputs] and bias [B, outputs]. If buckets share a part, shared_weight is [outputs, inputs] and shared_bias
    [outputs]."""

    def __init__(
        self,
        buckets: int,
        inputs: int,
        outputs: int,
        rule: Rounding | None = None,
        bias_rule: Rounding | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """`rule` and `bias_rule` say how weight and bias are rounded in forward; None means not at all."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(buckets, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(buckets, outputs))
        self.shared_weight = nn.Parameter(torch.empty(outputs, inputs)) if shared else None
        self.shared_bias = nn.Parameter(torch.empty(outputs)) if shared else None
        self.rules = rule, bias_rule

    def forward(self, groups: Sequence[Tensor]) -> list[Tensor]:
        """Computes the layer for the samples of each bucket, [n, inputs] -> [n, outputs]."""
        weight, bias = self.effective_parameters()
        layers = zip(groups, weight.unbind(), bias.unbind(), strict=True)
        return [functional.linear(*each) for each in layers]

    def merged_parameters(self) -> tuple[Tensor, Tensor]:
        """Returns weight and bias with the shared part added."""
        if self.shared_weight is None or self.shared_bias is None:
            return self.weight, self.bias
        return self.weight + self.shared_weight, self.bias + self.shared_bias

    def effective_parameters(self) -> tuple[Tensor, Tensor]:
        """Returns weight and bias as forward uses them: with the shared part added, then rounded by their rules."""
        rule, bias_rule = self.rules
        weight, bias = self.merged_parameters()
        weight = weight if rule is None else fake_round(weight, rule)
        return weight, bias if bias_rule is None else fake_round(bias, bias_rule)


def activated(y: Tensor, activation: str) -> Tensor:
    """Computes the activations of a hidden layer's outputs, which are the inputs of the next layer."""
    match activation:
        case "crelu":
            return functional.hardtanh(y, 0.0, 1.0)
        case "screlu":
            return functional.hardtanh(y, 0.0, 1.0).square()
        case "dual":
            return torch.cat([functional.hardtanh(y, 0.0, 1.0), y.square().clamp(max=1.0)], dim=1)
        case "hard_swish":
            return functional.hardswish(y)
        case _:
            values, gates = y.chunk(2, dim=1)
            return values * functional.hardsigmoid(gates)


def choose_kernels(asked: Kernels, shape: Shape) -> Kernels:
    """Returns the kernels that can compute the network: `asked`, or "torch", with a line in the log, if it has an
    activation without fused kernels."""
    unserved = next((each for each in shape.hidden_activation if each in ("hard_swish", "gated")), None)
    if unserved is None or asked == "torch":
        return asked
    slower = "torch's own operations take 1.2 to 2.1 times as long on a CPU"
    log.info("model.hidden_activation = %s has no fused kernels: %s", unserved, slower)
    return "torch"


def make_stack_spec(shape: Shape, product_one: float = 0.0) -> StackSpec:
    """Describes the layers for the fused kernels. Names of activations are the same, except that dual is called both.
    The result is of no use for a shape that only torch computes. `product_one` is as in Form."""
    hidden = zip(shape.hidden, shape.hidden_activation, strict=True)
    return StackSpec(
        first=cast('Literal["pairwise", "crelu", "screlu"]', shape.activation),
        hidden=tuple(
            HiddenLayer(
                outputs, cast('Literal["both", "crelu", "screlu"]', "both" if activation == "dual" else activation)
            )
            for outputs, activation in hidden
        ),
        all_activations=shape.skip,
        product_one=product_one,
    )


def kernel_columns(shape: Shape) -> dict[int, npt.NDArray[np.int64]]:
    """Returns the order of the inputs in the kernels, for each layer where it differs from the model's. The kernels
    have squares before clipped values. In a last layer that sees all activations, they have those of the first hidden
    layer first."""
    widths = [
        2 * outputs if activation == "dual" else outputs
        for outputs, activation in zip(shape.hidden, shape.hidden_activation, strict=True)
    ]
    own = [np.arange(width) for width in widths]
    orders = [
        np.roll(places, width // 2) if activation == "dual" else places
        for places, width, activation in zip(own, widths, shape.hidden_activation, strict=True)
    ]
    columns = dict(enumerate(orders, 2))
    if shape.skip:
        firsts = [widths[-1] + sum(widths[:number]) for number in range(len(widths) - 1)]
        columns[len(shape.layers)] = np.concatenate(
            [first + order for first, order in zip([*firsts, 0], orders, strict=True)]
        )
    return {number: order for number, order in columns.items() if (order != np.arange(len(order))).any()}

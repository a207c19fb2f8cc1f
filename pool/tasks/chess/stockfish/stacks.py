"""The small layers that follow the first layer of Stockfish's network: one stack of them for each output bucket.

Samples come ordered by bucket. So each stack computes one contiguous group, and every sample is computed once. The
eight stacks' parameters lie in one tensor for each layer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from pool.tasks.chess.layer_stacks import HiddenLayer, StackSpec, cuda_outputs, make_transform
from pool.tasks.chess.stockfish.quantization import roundings
from pool.tasks.chess.stockfish.versions import FC_1_OUT, NUM_BUCKETS, Version
from pool.tasks.chess.training.fake_quantization import clip_sum, fake_floor, fake_round


class LayerStacks(nn.Module):
    """Computes fc_0, squared and clipped activations, fc_1, fc_2, and adds the outputs of fc_0 that skip the other
    layers."""

    def __init__(self, version: Version, l1: int, shared_fc_0: bool, fake_quantization: Collection[str] = ()) -> None:
        super().__init__()
        self.version = version
        self._rules = roundings(version) if "dense" in fake_quantization else {}
        self.cuts_activations = "activations" in fake_quantization
        outputs = version.fc_0_out
        self.fc_0_weight = nn.Parameter(torch.empty(NUM_BUCKETS, outputs, l1))
        self.fc_0_bias = nn.Parameter(torch.empty(NUM_BUCKETS, outputs))
        self.fc_1_weight = nn.Parameter(torch.empty(NUM_BUCKETS, FC_1_OUT, version.fc_1_in))
        self.fc_1_bias = nn.Parameter(torch.empty(NUM_BUCKETS, FC_1_OUT))
        self.fc_2_weight = nn.Parameter(torch.empty(NUM_BUCKETS, version.fc_2_in))
        self.fc_2_bias = nn.Parameter(torch.empty(NUM_BUCKETS))
        self.shared_weight = nn.Parameter(torch.empty(outputs, l1)) if shared_fc_0 else None
        self.shared_bias = nn.Parameter(torch.empty(outputs)) if shared_fc_0 else None
        # for the fused kernels, which take `effective_parameters`
        self.spec = _make_stack_spec(version, cuts_activations=self.cuts_activations)
        factor = 1.0 if self.cuts_activations else version.product_factor
        self._changes = make_transform([self._rules.get(name) for name in self._own_parameters()], factor)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws weights and biases uniformly within +-1/sqrt(inputs), the same for every bucket. The last bias and the
        shared layer become zero."""
        layers = (
            (self.fc_0_weight, self.fc_0_bias),
            (self.fc_1_weight, self.fc_1_bias),
            (self.fc_2_weight, self.fc_2_bias),
        )
        for weight, bias in layers:
            limit = weight.shape[-1] ** -0.5
            for parameter in (weight, bias):
                parameter[0].uniform_(-limit, limit)
                parameter.copy_(parameter[0].clone().expand_as(parameter))
        self.fc_2_bias.zero_()
        self.clear_shared()

    @torch.no_grad()
    def clear_shared(self) -> None:
        """Sets the shared layer to zero, so that it adds nothing, as at the start of training."""
        for parameter in (self.shared_weight, self.shared_bias):
            if parameter is not None:
                parameter.zero_()

    @torch.no_grad()
    def clip(self) -> None:
        """Clamps the weights to the range of their int8 integers, in place. For fc_0 the sum with the shared layer is
        clamped, by changing the bucket's own part. Biases are stored as wider integers, and are not clamped."""
        rules = roundings(self.version)
        for name in ("fc_0_weight", "fc_1_weight", "fc_2_weight"):
            weight: Tensor = getattr(self, name)
            low, high = rules[name].limits
            if name == "fc_0_weight" and self.shared_weight is not None:
                clip_sum(weight, self.shared_weight, low, high)
            else:
                weight.clamp_(low, high)

    def fc_0(self) -> tuple[Tensor, Tensor]:
        """Returns fc_0's weight [8, out, l1] and bias [8, out], with the shared layer added."""
        if self.shared_weight is None or self.shared_bias is None:
            return self.fc_0_weight, self.fc_0_bias
        return self.fc_0_weight + self.shared_weight, self.fc_0_bias + self.shared_bias

    def fc_0_weights(self) -> list[Tensor]:
        """Returns the weights of fc_0 in the buckets and, if there is one, in the shared layer, [..., l1] each."""
        return [weight for weight in (self.fc_0_weight, self.shared_weight) if weight is not None]

    def effective_parameters(self) -> tuple[Tensor, ...]:
        """Returns weight and bias of fc_0, fc_1 and fc_2 of all buckets, as forward uses them: with the shared layer,
        and rounded under fake quantization. Unless activations are cut, fc_0 is scaled to apply to unscaled
        products."""
        weight, bias = self.fc_0()
        parameters = {**self._own_parameters(), "fc_0_weight": weight, "fc_0_bias": bias}
        if self._rules:
            parameters = {name: fake_round(parameter, self._rules[name]) for name, parameter in parameters.items()}
        if not self.cuts_activations:  # weights are scaled, as they are far fewer than the products
            parameters["fc_0_weight"] = parameters["fc_0_weight"] * self.version.product_factor
        return tuple(parameters.values())

    def _own_parameters(self) -> dict[str, Tensor]:
        """Returns the buckets' own parameters by name, without the shared layer."""
        return {
            "fc_0_weight": self.fc_0_weight,
            "fc_0_bias": self.fc_0_bias,
            "fc_1_weight": self.fc_1_weight,
            "fc_1_bias": self.fc_1_bias,
            "fc_2_weight": self.fc_2_weight,
            "fc_2_bias": self.fc_2_bias,
        }

    def forward(self, inputs: Tensor, borders: Sequence[int]) -> Tensor:
        """Returns the outputs [B], given the first layer's products [B, l1]. Samples borders[b] .. borders[b + 1]
        belong to bucket b. The products are cut if activations are."""
        # backward of split and unbind is one concatenation each, not a sum of eight mostly empty tensors
        parameters = zip(*(parameter.unbind() for parameter in self.effective_parameters()), strict=True)
        groups = torch.split(inputs, [end - start for start, end in pairwise(borders)])
        return torch.cat([self._bucket(group, *layers) for group, layers in zip(groups, parameters, strict=True)])

    def on_cuda(self, inputs: Tensor, extra: Tensor, borders: Sequence[int]) -> Tensor:
        """Computes `forward` plus `extra` [B] by CUDA kernels, all buckets at once."""
        own = self._own_parameters()
        both = self.shared_weight, self.shared_bias
        shared = None if both[0] is None or both[1] is None else (both[0], both[1])
        return cuda_outputs(self.spec, inputs, extra, borders, tuple(own.values()), shared, self._changes)

    def _bucket(self, x: Tensor, w0: Tensor, b0: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        """Computes the layers of one bucket, [n, l1] -> [n]."""
        version = self.version
        y = functional.linear(x, w0, b0)
        hidden = self._activated(0, y, version.paired)
        z = functional.linear(hidden, w1, b1)
        all_ = version.all_activations
        last = torch.cat([hidden, self._activated(1, z, FC_1_OUT)], dim=1) if all_ else self._clipped(z)
        return last @ w2 + b2 + (y[:, -2] - y[:, -1] if version.skips == 2 else y[:, -1])

    def _activated(self, layer: int, y: Tensor, used: int) -> Tensor:
        """Returns the activations of the first `used` columns: their squares, then the columns themselves, all
        clipped."""
        y = y[:, :used]
        return self._clipped(torch.cat([y.square() * self.version.square_factor(layer), y], dim=1))

    def _clipped(self, y: Tensor) -> Tensor:
        highest = self.version.largest_float_input
        if not self.cuts_activations:
            return functional.hardtanh(y, 0.0, highest)
        # as in nnue-pytorch: clamp passes the gradient at its ends, where values that were cut to 0 or highest lie
        return fake_floor(y, self.version.input_one).clamp(0.0, highest)


def _make_stack_spec(version: Version, *, cuts_activations: bool) -> StackSpec:
    """Describes a version's layers for the fused kernels."""
    fc_0 = HiddenLayer(version.fc_0_out, "both", active=version.paired, square=version.square_factor(0))
    fc_1 = HiddenLayer(FC_1_OUT, "crelu")
    if version.all_activations:
        fc_1 = HiddenLayer(FC_1_OUT, "both", square=version.square_factor(1))
    return StackSpec(
        first="pairwise",
        hidden=(fc_0, fc_1),
        largest_sum=version.largest_float_sum,
        largest_input=version.largest_float_input,
        all_activations=version.all_activations,
        skips=version.skips,
        product_factor=version.product_factor if cuts_activations else 1.0,
        product_one=version.input_one if cuts_activations else 0.0,
        hidden_one=version.input_one if cuts_activations else 0.0,
    )

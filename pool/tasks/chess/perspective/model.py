"""The float model that is trained. It equals the exported network except for what integers cut off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pool.kernels.backend import Backend
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess import fused_layers
from pool.tasks.chess.cuda import first_stage
from pool.tasks.chess.layer_stacks import Kernels, choose_backend, cuda_outputs, cuda_supports, make_transform
from pool.tasks.chess.perspective.inference import PAIR_SHIFT
from pool.tasks.chess.perspective.layers import (
    StackedLinear,
    activated,
    choose_kernels,
    kernel_columns,
    make_stack_spec,
)
from pool.tasks.chess.perspective.shape import Floats, Shape
from pool.tasks.chess.quantization import Rounding
from pool.tasks.chess.training.fake_quantization import RoundedSparseLinear, clip_sum, fake_floor
from pool.tasks.chess.training.loss import FIELD

_ROWS = 768  # rows of the first layer that are clipped at a time: those of a king bucket


class PerspectiveModel(nn.Module):
    """Computes (inputs -> N)x2 -> activation -> layers of the sample's output bucket. One unit of the output is
    loss.output_unit."""

    def __init__(
        self,
        shape: Shape,
        kernels: Kernels = "fused",
        fake_quantization: Collection[str] = (),
        rules: Mapping[str, Rounding] | None = None,
        table_dtype: torch.dtype = torch.float32,
    ) -> None:
        """`rules` say how the tensors that a file holds as integers are rounded. Those named by `fake_quantization` are
        rounded in forward too. `table_dtype` is the dtype in which rows of the first layer are summed."""
        super().__init__()
        self.shape = shape
        rules = rules or {}
        rows = rules if "rows" in fake_quantization else {}
        dense = rules if "dense" in fake_quantization else {}
        self.l0 = _first_layer(shape, rows.get("l0w"), rows.get("l0b"), table_dtype)
        self.layers = nn.ModuleList(
            StackedLinear(
                shape.buckets,
                *sizes,
                dense.get(f"l{number}w"),
                dense.get(f"l{number}b"),
                shared=number in shape.factorised_layers,
            )
            for number, sizes in enumerate(shape.layers, 1)
        )
        self._virtual_rows = torch.from_numpy(shape.virtual_rows()) if shape.num_virtual else torch.empty(0)
        # integers cut off bits of products alone; other activations keep every bit
        cuts = "activations" in fake_quantization and shape.activation == "pairwise" and "l0w" in rules
        self._kernels = choose_kernels(kernels, shape)
        self._spec = make_stack_spec(shape, rules["l0w"].scale ** 2 / (1 << PAIR_SHIFT) if cuts else 0.0)
        self._changes = make_transform(chain.from_iterable(layer.rules for layer in self._stacks()))
        self._columns = {number: torch.from_numpy(order) for number, order in kernel_columns(shape).items()}
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the first weights as bullet does, from torch's default generator: normal with a deviation of sqrt(2 /
        inputs). Biases and factorisers become zero."""
        if self.l0.weight.is_meta:
            return  # to find out that there is nothing to fill, torch imports its compiler
        real = self.shape.num_real
        self.l0.weight[:real].normal_(0.0, (2 / real) ** 0.5)
        self.l0.weight[real:].zero_()
        assert self.l0.bias is not None
        self.l0.bias.zero_()
        for layer in self._stacks():
            layer.weight.normal_(0.0, (2 / layer.weight.shape[2]) ** 0.5)
            layer.bias.zero_()
            if layer.shared_weight is not None and layer.shared_bias is not None:
                layer.shared_weight.zero_()
                layer.shared_bias.zero_()

    def forward(self, batch: TensorBatch) -> Tensor:
        """Returns the outputs [B], from the side to move's point of view. The batch's samples are ordered by output
        bucket."""
        features, borders = batch.sparse[FIELD], batch.bucket_offsets
        match self.backend:
            case "cuda":
                return self._layers_on_cuda(self._first_on_cuda(features), borders)
            case "cpu":
                return self._native(features, borders)
            case "torch":
                return self._layers(self._first(features), borders)

    def with_activity(self, batch: TensorBatch) -> tuple[Tensor, Tensor]:
        """Returns the outputs [B], as `forward` does, and the mean of the first layer's activations, a scalar."""
        features, borders = batch.sparse[FIELD], batch.bucket_offsets
        if self.backend == "cpu":
            sums = self.l0(features)
            outputs = fused_layers.outputs(self._spec, sums, self._effective_parameters(), borders)
            return outputs, self._activated(sums).mean()
        on_cuda = self.backend == "cuda"
        x = self._first_on_cuda(features) if on_cuda else self._first(features)
        return self._layers_on_cuda(x, borders) if on_cuda else self._layers(x, borders), x.mean()

    @property
    def backend(self) -> Backend:
        """The backend ("cpu", "cuda" or "torch") that computes the model on its present device."""
        return choose_backend(self._kernels, self._stacks()[0].weight)

    def _native(self, features: SparseInput, borders: Sequence[int]) -> Tensor:
        """Computes the outputs [B] by native CPU code."""
        spec, layer = self._spec, self.l0
        if self._kernels == "fused_first_layer" and fused_layers.supports_first_layer(spec, layer, features):
            return fused_layers.first_layer_outputs(spec, layer, features, self._effective_parameters(), borders)
        return fused_layers.outputs(spec, layer(features), self._effective_parameters(), borders)

    def _first_on_cuda(self, features: SparseInput) -> Tensor:
        """Computes `_first` by a CUDA kernel, or by torch if the kernel does not serve these inputs."""
        if not first_stage.supports(self.l0, features):
            return self._first(features)
        activation = first_stage.Activation[self.shape.activation.upper()]
        cut = first_stage.Cut(self._spec.product_factor, self._spec.product_one)
        return first_stage.layer_first_stage(self.l0, features, self._spec.largest_sum, activation, cut)

    def _first(self, features: SparseInput) -> Tensor:
        """Computes the first layer and its activations in torch. Returns [B, inputs of the next layer], own
        perspectives, then the opponents'."""
        x = self._activated(self.l0(features))
        return torch.cat(x.view(2, -1, x.shape[1]).unbind(), dim=1)

    def _activated(self, sums: Tensor) -> Tensor:
        """Computes the activations of the first layer's sums, own perspectives first."""
        # hardtanh: clamp with a backward of one pass
        x = functional.hardtanh(sums, 0.0, 1.0)
        if self.shape.activation == "pairwise":
            low, high = x.chunk(2, dim=1)
            x = low * high
            if self._spec.product_one:
                x = fake_floor(x, self._spec.product_one)
        elif self.shape.activation == "screlu":
            x = x.square()
        return x

    def _layers_on_cuda(self, x: Tensor, borders: Sequence[int]) -> Tensor:
        """Computes `_layers` by CUDA kernels for all buckets at once, or by torch if the kernels do not serve these
        inputs."""
        if not cuda_supports(self._spec, x, self.shape.buckets):
            return self._layers(x, borders)
        parameters = self._in_kernel_order([layer.merged_parameters() for layer in self._stacks()])
        return cuda_outputs(self._spec, x, None, borders, parameters, changes=self._changes)

    def _layers(self, x: Tensor, borders: Sequence[int]) -> Tensor:
        """Computes the layers behind the first in torch. Returns [B], given the activations of `_first`. Samples
        borders[b] .. borders[b + 1] belong to bucket b."""
        groups = list(torch.split(x, [end - start for start, end in pairwise(borders)]))
        *layers, last = self._stacks()
        hidden: list[list[Tensor]] = []  # activations of each layer, by bucket
        for layer, activation in zip(layers, self.shape.hidden_activation, strict=True):
            groups = [activated(y, activation) for y in layer(groups)]
            hidden.append(groups)
        if self.shape.skip:
            groups = [torch.cat([*of_bucket[-1:], *of_bucket[:-1]], dim=1) for of_bucket in zip(*hidden, strict=True)]
        return torch.cat(last(groups))[:, 0]

    def _effective_parameters(self) -> list[Tensor]:
        """Returns weight and bias of each layer behind the first as forward uses them, with inputs in the kernels'
        order. The last layer's have no axis for its one output."""
        *hidden, weight, bias = self._in_kernel_order([layer.effective_parameters() for layer in self._stacks()])
        return [*hidden, weight[:, 0], bias[:, 0]]

    def _in_kernel_order(self, layers: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Returns weight and bias of each layer, with the weights' inputs put into the order of the kernels."""
        parameters = []
        for number, (weight, bias) in enumerate(layers, 1):
            columns = self._columns.get(number)
            parameters += [weight if columns is None else weight.index_select(2, columns.to(weight.device)), bias]
        return parameters

    @torch.no_grad()
    def clip(self, limits: Mapping[str, float]) -> None:
        """Clamps tensors, by bullet's names, to +- their limit, in place. Where a factoriser is added, as to l0w, the
        sum is clamped."""
        tensors = dict(self._named())
        for name, limit in limits.items():
            rows = self.shape.blocks.get(name)
            if name in ("l0w", "l0w[pieces]") and self.shape.num_virtual:
                self._clip_first(tensors["l0w"] if rows is None else tensors["l0w"][rows], limit)
            elif factoriser := self._factoriser_of(name):
                clip_sum(tensors[name], tensors[factoriser], -limit, limit)
            else:
                (tensors[name] if rows is None else tensors["l0w"][rows]).clamp_(-limit, limit)

    def _clip_first(self, tensor: Tensor, limit: float) -> None:
        """Clamps the first layer's rows in `tensor`, from its first row on. Where a factoriser is added to rows, the
        sum is clamped."""
        added = self.l0.weight[self.shape.first_virtual :]
        pieces, relations = tensor.tensor_split([len(self._virtual_rows)])
        for rows, virtual in zip(torch.split(pieces, _ROWS), torch.split(self._virtual_rows, _ROWS), strict=True):
            clip_sum(rows, added[virtual.to(added.device)], -limit, limit)
        relations.clamp_(-limit, limit)

    def _factoriser_of(self, name: str) -> str | None:
        """Returns the name of the factoriser that is added to a tensor, or None."""
        return next((factoriser for factoriser, target in self.shape.factorisers.items() if target == name), None)

    @torch.no_grad()
    def floats(self) -> dict[str, npt.NDArray[np.float32]]:
        """Returns copies of the parameters by bullet's names."""
        return {name: tensor.float().cpu().numpy().copy() for name, tensor in self._named()}

    @torch.no_grad()
    def load_floats(self, floats: Floats) -> None:
        """Loads parameters as `floats` returns them."""
        for name, tensor in self._named():
            assert tensor.shape == floats[name].shape, f"{name}: {floats[name].shape} into {tuple(tensor.shape)}"
            tensor.copy_(torch.from_numpy(floats[name]))

    @torch.no_grad()
    def reorder_pairs(self, order: npt.NDArray[np.int64]) -> None:
        """Reorders the pairs of first-layer outputs (j, j + N/2) in place, so that pair j is what pair order[j] was.
        The function that the model computes stays the same."""
        both = torch.from_numpy(np.concatenate([order, order + len(order)]))
        assert self.l0.bias is not None
        first = self._stacks()[0]
        for tensor in (self.l0.weight, self.l0.bias, first.weight, first.shared_weight):
            if tensor is not None:
                tensor.copy_(tensor[..., both])

    def _named(self) -> list[tuple[str, Tensor]]:
        """Returns the model's parameters by bullet's names."""
        real = self.shape.num_real
        assert self.l0.bias is not None
        named: list[tuple[str, Tensor]] = [("l0w", self.l0.weight[:real]), ("l0b", self.l0.bias)]
        if self.shape.num_virtual:
            named.append(("l0f", self.l0.weight[self.shape.first_virtual :]))
        for number, layer in enumerate(self._stacks(), 1):
            named += [(f"l{number}w", layer.weight), (f"l{number}b", layer.bias)]
            if layer.shared_weight is not None and layer.shared_bias is not None:
                named += [(f"l{number}fw", layer.shared_weight), (f"l{number}fb", layer.shared_bias)]
        return named

    def _stacks(self) -> list[StackedLinear]:
        return [layer for layer in self.layers if isinstance(layer, StackedLinear)]


def _first_layer(shape: Shape, rule: Rounding | None, bias_rule: Rounding | None, dtype: torch.dtype) -> SparseLinear:
    """Returns the first layer: a plain sparse one, or one that rounds its rows if there is a rule or another dtype."""
    inputs = shape.num_inputs
    if rule is None and bias_rule is None and dtype == torch.float32:
        return SparseLinear(inputs, shape.width, field=FIELD)
    virtual_rows = None
    if shape.num_virtual:
        virtual_rows = np.full(inputs, -1)
        of_pieces = shape.virtual_rows()
        virtual_rows[: len(of_pieces)] = shape.first_virtual + of_pieces
        virtual_rows[shape.num_real :] = np.arange(shape.num_real, inputs)
    return RoundedSparseLinear(
        inputs,
        shape.width,
        field=FIELD,
        rule=rule,
        bias_rule=bias_rule,
        virtual_rows=virtual_rows,
        rows_dtype=dtype,
    )

"""The float model that is trained: Stockfish's network of any version and width, and its conversion to and from the
floats of an exported one.

One unit of the output is 600 internal units. The model equals the integer network except for the latter's rounding
down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

import pool.tasks.chess.stockfish.halfka as halfka
from pool.kernels.backend import Backend
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess import fused_layers
from pool.tasks.chess.cuda import bucket_difference, first_stage
from pool.tasks.chess.layer_stacks import choose_backend
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.quantization import Floats, roundings
from pool.tasks.chess.stockfish.stacks import LayerStacks
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, OUTPUT_UNIT, Table
from pool.tasks.chess.training.fake_quantization import RoundedSparseLinear, fake_floor
from pool.tasks.chess.training.loss import FIELD

_PIECE_VALUES = (126, 781, 825, 1276, 2538)  # pawn .. queen, internal units


class StockfishModel(nn.Module):
    """Two perspectives of l1 outputs -> pairwise product -> layer stacks (small layers, one stack for each output
    bucket), plus half the difference of the two PSQT sums."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.version = config.architecture
        self.num_virtual = halfka.VIRTUAL if config.factorized else 0
        self.num_features = config.inputs
        self.first_virtual = config.first_virtual
        rounds = "rows" in config.fake_quantization
        # PSQT stays float32: a row of 8 is one memory sector either way, and a queen's value needs the bits
        dtype = getattr(torch, config.table_dtype)
        self.transformer = self._table("transformer", config.l1, rounds, dtype)
        self.psqt = self._table("psqt", NUM_BUCKETS, rounds, bias=False)
        self.stacks = LayerStacks(self.version, config.l1, config.shared_fc_0, config.fake_quantization)
        self._kernels = config.kernels
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the initial values as the trainer of 2022 does, from torch's default generator."""
        if self.transformer.weight.is_meta:
            return  # to find out that there is nothing to fill, torch imports its compiler
        for table in self.version.tables:
            limit = (table.inputs + (self.num_virtual if table.first == 0 else 0)) ** -0.5
            rows = table.rows if table.first else slice(0, table.inputs + self.num_virtual)
            self.transformer.weight[rows].uniform_(-limit, limit)
        limit = (self.version.inputs + self.num_virtual) ** -0.5
        assert self.transformer.bias is not None
        self.transformer.bias.uniform_(-limit, limit)
        self.psqt.weight.zero_()
        self.psqt.weight[: halfka.INPUTS].copy_(_material()[:, None])
        self._clear_virtual()
        self.stacks.reset_parameters()

    def forward(self, batch: TensorBatch) -> Tensor:
        """Returns the outputs [B], from the side to move's point of view. The batch's samples are ordered by bucket."""
        features, borders = batch.sparse[FIELD], batch.bucket_offsets
        match self.backend:
            case "cuda":
                extra = self._psqt_on_cuda(features, borders)
                return self.stacks.on_cuda(self._products_on_cuda(features), extra, borders)
            case "cpu":
                positional = self._native(features, borders)
            case "torch":
                positional = self.stacks(self._products(features), borders)
        return positional + _bucket_difference(self.psqt(features), borders)

    @property
    def backend(self) -> Backend:
        """The backend ("cpu", "cuda" or "torch") that computes the model on its present device."""
        return choose_backend(self._kernels, self.stacks.fc_0_weight)

    def _native(self, features: SparseInput, borders: Sequence[int]) -> Tensor:
        """Computes the positional part by native CPU code: the first layer and the layer stacks, [B]."""
        layer, stacks = self.transformer, self.stacks
        if self._kernels == "fused_first_layer" and fused_layers.supports_first_layer(stacks.spec, layer, features):
            return fused_layers.first_layer_outputs(
                stacks.spec, layer, features, stacks.effective_parameters(), borders
            )
        return fused_layers.outputs(stacks.spec, layer(features), stacks.effective_parameters(), borders)

    def _products_on_cuda(self, features: SparseInput) -> Tensor:
        """Computes `_products` by a CUDA kernel, or by torch if the kernel does not serve these inputs."""
        if not first_stage.supports(self.transformer, features):
            return self._products(features)
        spec, pairwise = self.stacks.spec, first_stage.Activation.PAIRWISE
        cut = first_stage.Cut(spec.product_factor, spec.product_one)
        return first_stage.layer_first_stage(self.transformer, features, spec.largest_sum, pairwise, cut)

    def _psqt_on_cuda(self, features: SparseInput, borders: Sequence[int]) -> Tensor:
        """Computes the PSQT part, [B], by a CUDA kernel, or by torch if the kernel does not serve these inputs."""
        if not bucket_difference.supports(self.psqt, features):
            return _bucket_difference(self.psqt(features), borders)
        return bucket_difference.layer_bucket_difference(self.psqt, features, borders)

    def _products(self, features: SparseInput) -> Tensor:
        """Computes the first layer and its pairwise products in torch. Returns [B, l1], own perspectives first, then
        the opponents'. They are not scaled, as the stacks know their scale. Where activations are cut, they are cut and
        in the scale of the next layer's inputs."""
        # hardtanh: clamp with a backward of one pass
        low, high = functional.hardtanh(self.transformer(features), 0.0, self.version.largest_float_sum).chunk(2, dim=1)
        product = low * high  # [2 * B, l1 / 2]
        if self.stacks.cuts_activations:
            product = fake_floor(product * self.version.product_factor, self.version.input_one)
        return torch.cat(product.chunk(2), dim=1)

    @torch.no_grad()
    def merged_floats(self) -> dict[str, npt.NDArray[np.float32]]:
        """Returns the parameters as an exported net has them (see pool.tasks.chess.stockfish.quantization). Virtual
        inputs and the shared layer are added in. The arrays may be the model's own memory."""
        assert self.transformer.bias is not None
        fc_0_weight, fc_0_bias = self.stacks.fc_0()
        tensors = {
            "transformer_bias": self.transformer.bias,
            **{table.weight: self._merged_rows(self.transformer.weight, table) for table in self.version.tables},
            **{table.psqt: self._merged_rows(self.psqt.weight, table) for table in self.version.tables},
            "fc_0_bias": fc_0_bias,
            "fc_0_weight": fc_0_weight,
            "fc_1_bias": self.stacks.fc_1_bias,
            "fc_1_weight": self.stacks.fc_1_weight,
            "fc_2_bias": self.stacks.fc_2_bias,
            "fc_2_weight": self.stacks.fc_2_weight,
        }
        return {name: tensor.float().cpu().numpy() for name, tensor in tensors.items()}

    @torch.no_grad()
    def load_merged_floats(self, floats: Floats) -> None:
        """Loads parameters as `merged_floats` returns them. Virtual inputs and the shared layer become zero."""
        assert self.transformer.bias is not None
        for table in self.version.tables:
            _copy(self.transformer.weight[table.rows], floats, table.weight)
            _copy(self.psqt.weight[table.rows], floats, table.psqt)
        _copy(self.transformer.bias, floats, "transformer_bias")
        for name in ("fc_0_bias", "fc_0_weight", "fc_1_bias", "fc_1_weight", "fc_2_bias", "fc_2_weight"):
            _copy(getattr(self.stacks, name), floats, name)
        self._clear_virtual()
        self.stacks.clear_shared()

    @torch.no_grad()
    def clip(self) -> None:
        """Clamps the weights that are exported as int8 to the range of their integers, in place."""
        self.stacks.clip()
        rules = roundings(self.version)
        for table in self.version.tables:
            if table.lowest is not None:
                self.transformer.weight[table.rows].clamp_(*rules[table.weight].limits)

    @torch.no_grad()
    def reorder_pairs(self, order: npt.NDArray[np.int64]) -> None:
        """Reorders the pairs of first-layer outputs (j, j + l1 / 2) in place, so that pair j is what pair order[j] was.
        The function that the model computes stays the same."""
        assert self.transformer.bias is not None
        both = torch.from_numpy(np.concatenate([order, order + len(order)]))
        for tensor in (self.transformer.weight, self.transformer.bias, *self.stacks.fc_0_weights()):
            tensor.copy_(tensor[..., both])

    def _table(
        self, name: str, outputs: int, rounds: bool, dtype: torch.dtype = torch.float32, *, bias: bool = True
    ) -> SparseLinear:
        """Returns the sparse layer `name`, whose rows are summed in `dtype`. Rows of all feature sets have the same
        scale in the exported file."""
        if not rounds and dtype == torch.float32:
            return SparseLinear(self.num_features, outputs, bias, field=FIELD)
        rules = roundings(self.version) if rounds else {}
        return RoundedSparseLinear(
            self.num_features,
            outputs,
            field=FIELD,
            rule=rules.get(f"{name}_weight"),
            bias_rule=rules.get(f"{name}_bias"),
            bias=bias,
            virtual_rows=self._virtual_rows() if self.num_virtual else None,
            rows_dtype=dtype,
        )

    def _virtual_rows(self) -> npt.NDArray[np.int64]:
        """Returns the argument `virtual_rows` of RoundedSparseLinear: for each input the row that export adds to it."""
        rows = np.full(self.num_features, -1)
        rows[: halfka.INPUTS] = self.first_virtual + halfka.virtual_features()
        rows[self.first_virtual :] = np.arange(self.first_virtual, self.num_features)
        return rows

    def _merged_rows(self, weight: Tensor, table: Table) -> Tensor:
        """Returns a table's rows, with those of the virtual inputs added."""
        rows = weight[table.rows]
        if not self.num_virtual or table.first:  # virtual inputs belong to HalfKAv2_hm alone
            return rows
        return rows + weight[self.first_virtual + torch.from_numpy(halfka.virtual_features()).to(weight.device)]

    def _clear_virtual(self) -> None:
        for table in (self.transformer, self.psqt):
            table.weight[self.version.inputs :].zero_()


def _bucket_difference(sums: Tensor, borders: Sequence[int]) -> Tensor:
    """Computes half of own minus opponent's sum, for each sample's bucket. Returns [B], given sums [2 * B, 8], own
    perspectives first."""
    own, opponent = sums.chunk(2)
    difference = torch.split((own - opponent) * 0.5, [end - start for start, end in pairwise(borders)])
    return torch.cat([group[:, bucket] for bucket, group in enumerate(difference)])


def _copy(destination: Tensor, floats: Mapping[str, npt.NDArray[np.float32]], name: str) -> None:
    assert destination.shape == floats[name].shape, f"{name}: {floats[name].shape} into {tuple(destination.shape)}"
    destination.copy_(torch.from_numpy(floats[name]))


def _material() -> Tensor:
    """Returns the value of the piece that each feature stands for, [22528], in units of the output. Kings are 0."""
    planes = torch.zeros(halfka.PLANES)
    for kind, value in enumerate(_PIECE_VALUES):
        planes[2 * kind] = value / OUTPUT_UNIT
        planes[2 * kind + 1] = -value / OUTPUT_UNIT
    return planes.repeat_interleave(halfka.SQUARES).repeat(halfka.INPUTS // (halfka.PLANES * halfka.SQUARES))

"""The network in a checkpoint of nnue-pytorch (a .ckpt, or a .pt), as floats of a Net. Free of torch.

The names in its state_dict have changed over the years; these are known, each with or without `model.` in front:

    input.weight, input.bias                   all feature sets one behind the other, [inputs, l1 + 8]: outputs, PSQT
    input.features.0.weight, ...               or one table for each
    input.virtual_weight                       the factoriser [768, l1 + 8], else the last rows of input.weight
    layer_stacks.l1.weight, l2, output         [8 * outputs, inputs], with `.linear` before `.weight` since 2026
    layer_stacks.l1_fact.weight                what is added to fc_0 of all buckets; since 2026 l1.factorized_linear

HalfKAv2_hm has 11 planes of 64 squares for each king bucket (the kings' are one), or 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from pool.tasks.stockfish.quantized import halfka
from pool.tasks.stockfish.quantized.quantize import Floats
from pool.tasks.stockfish.quantized.versions import (
    FC_1_OUT,
    L1_STEP,
    MAX_L1,
    NUM_BUCKETS,
    VERSIONS,
    Table,
    Version,
)
from pool.tasks.stockfish.trainer.torch_file import TorchFile

SUFFIXES = (".ckpt", ".pt")
_WITH_12_PLANES = halfka.INPUTS // halfka.PLANES * 12
_PREFIXES = ("model.", "_orig_mod.")

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TrainerNet:
    """Floats that pool.tasks.stockfish.quantized.quantize takes; factorisers are added in."""

    version: Version
    l1: int
    floats: Floats


def is_of_trainer(path: Path) -> bool:
    """By its name."""
    return path.suffix in SUFFIXES


def read_trainer(path: Path) -> TrainerNet:
    """Which version it is follows from the shapes; where versions differ in width alone, it is that of this width, else
    the newest. Raises DataError that names the tensor, its shape, and what is expected."""
    return _Reader(path).net()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = TorchFile(path)
        self._stored = {_plain(name): name for name in self._file.tensors}

    def net(self) -> TrainerNet:
        tables = self._tables()
        version, l1 = self._version(tables)
        self._check_input(tables, l1)
        rows = self._rows(version, tables)
        stacks = self._stacks(version, l1)
        bias = self._read("input.bias", (l1 + NUM_BUCKETS,))[:l1]
        weights = {table.weight: block[:, :l1] for table, block in zip(_in_order(version), rows, strict=True)}
        psqt = {table.psqt: block[:, l1:] for table, block in zip(_in_order(version), rows, strict=True)}
        return TrainerNet(version, l1, {"transformer_bias": bias, **weights, **psqt, **stacks})

    def _tables(self) -> list[str]:
        """Names of the first layer's weights, in the order of the feature sets."""
        if "input.weight" in self._stored:
            return ["input.weight"]
        found = [name for k in range(8) if (name := f"input.features.{k}.weight") in self._stored]
        if not found:
            raise DataError(
                self._path, "no tensor input.weight: not a checkpoint of nnue-pytorch that this program knows"
            )
        return found

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._file.tensors[self._stored[name]].shape

    def _version(self, tables: Sequence[str]) -> tuple[Version, int]:
        shapes = [self._shape(name) for name in tables]
        inputs = [shape[0] for shape in shapes if len(shape) == 2]
        l1 = shapes[0][-1] - NUM_BUCKETS if len(shapes[0]) == 2 else 0
        fitting = [version for version in VERSIONS.values() if _fits(version, inputs)]
        if len(inputs) != len(shapes) or not fitting:
            known = "; ".join(f"{version.name} {_sizes(version, len(tables))}" for version in _distinct(len(tables)))
            raise DataError(
                self._path, f"{' and '.join(tables)}: {_listed(shapes)}, expected is [inputs, l1 + 8] with: {known}"
            )
        if not 0 < l1 <= MAX_L1 or l1 % L1_STEP:
            raise DataError(self._path, f"{tables[0]}: {_listed(shapes)}, expected is a multiple of {L1_STEP}, and 8")
        return next((version for version in fitting if version.l1 == l1), fitting[-1]), l1

    def _check_input(self, tables: Sequence[str], l1: int) -> None:
        for name in tables:
            self._expect(name, (self._shape(name)[0], l1 + NUM_BUCKETS))

    def _rows(self, version: Version, tables: Sequence[str]) -> list[Array]:
        """Of each feature set, those of the pieces last."""
        blocks = [self._file.read(self._stored[name]) for name in tables]
        if len(blocks) == 1:
            borders = np.cumsum([table.inputs for table in version.tables[1:]], dtype=np.int64)
            blocks = np.split(blocks[0], borders)
        last = tables[-1]
        virtual = f"{last.removesuffix('weight')}virtual_weight"
        more = self._read(virtual, (halfka.VIRTUAL, blocks[-1].shape[1])) if virtual in self._stored else None
        return [*blocks[:-1], _pieces(blocks[-1], more)]

    def _stacks(self, version: Version, l1: int) -> dict[str, Array]:
        outputs = version.fc_0_out
        weight, bias = self._layer("l1", NUM_BUCKETS * outputs, l1)
        weight, bias = weight.reshape(NUM_BUCKETS, outputs, l1), bias.reshape(NUM_BUCKETS, outputs)
        for shared in ("l1_fact", "l1.factorized_linear"):
            if f"layer_stacks.{shared}.weight" in self._stored:
                more = self._named(shared, outputs, l1)
                weight, bias = weight + more[0], bias + more[1]
        second = self._layer("l2", NUM_BUCKETS * FC_1_OUT, version.fc_1_in)
        last = self._layer("output", NUM_BUCKETS, version.fc_2_in)
        return {
            "fc_0_weight": weight,
            "fc_0_bias": bias,
            "fc_1_weight": second[0].reshape(NUM_BUCKETS, FC_1_OUT, version.fc_1_in),
            "fc_1_bias": second[1].reshape(NUM_BUCKETS, FC_1_OUT),
            "fc_2_weight": last[0],
            "fc_2_bias": last[1],
        }

    def _layer(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array]:
        linear = f"{name}.linear"
        return self._named(linear if f"layer_stacks.{linear}.weight" in self._stored else name, outputs, inputs)

    def _named(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array]:
        weight = self._read(f"layer_stacks.{name}.weight", (outputs, inputs))
        return weight, self._read(f"layer_stacks.{name}.bias", (outputs,))

    def _read(self, name: str, shape: tuple[int, ...]) -> Array:
        if name not in self._stored:
            raise DataError(self._path, f"no tensor {name}, of {list(shape)}")
        self._expect(name, shape)
        return self._file.read(self._stored[name])

    def _expect(self, name: str, shape: tuple[int, ...]) -> None:
        if self._shape(name) != shape:
            raise DataError(self._path, f"{name}: {list(self._shape(name))}, expected is {list(shape)}")


def _plain(name: str) -> str:
    while name.startswith(_PREFIXES):
        name = name.removeprefix("model.").removeprefix("_orig_mod.")
    return name.replace("._orig_mod.", ".")


def _in_order(version: Version) -> list[Table]:
    """Its tables as the trainer has them: the pieces' last."""
    return [*version.tables[1:], version.tables[0]]


def _fits(version: Version, inputs: Sequence[int]) -> bool:
    more = [table.inputs for table in version.tables[1:]]
    if len(inputs) == 1:
        return inputs[0] - sum(more) in _OF_PIECES
    *others, pieces = inputs or [0]
    return others == more and pieces in _OF_PIECES


_OF_PIECES = (halfka.INPUTS, halfka.INPUTS + halfka.VIRTUAL, _WITH_12_PLANES)


def _distinct(tables: int) -> list[Version]:
    """One for each set of inputs."""
    found: dict[tuple[int, ...], Version] = {}
    for version in VERSIONS.values():
        found.setdefault(tuple(table.inputs for table in version.tables), version)
    return [version for version in found.values() if tables == 1 or len(version.tables) == tables]


def _sizes(version: Version, tables: int) -> str:
    more = [table.inputs for table in version.tables[1:]]
    if tables == 1:
        return " or ".join(f"{sum(more) + pieces}" for pieces in _OF_PIECES)
    return ", ".join(map(str, [*more, _WITH_12_PLANES]))


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def _pieces(rows: Array, factoriser: Array | None) -> Array:
    """[22528, l1 + 8]: 11 planes, the factoriser added."""
    virtual = halfka.virtual_features()
    if len(rows) == halfka.INPUTS + halfka.VIRTUAL:
        rows, factoriser = rows[: halfka.INPUTS], rows[halfka.INPUTS :]
    elif len(rows) == _WITH_12_PLANES:
        bucket = np.arange(halfka.INPUTS) // (halfka.PLANES * halfka.SQUARES)
        rows = rows[bucket * 12 * halfka.SQUARES + virtual]
    return rows if factoriser is None else rows + factoriser[virtual]

"""Converts the floats of a network to the numbers of an exported file, and back. Free of torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.integer_layers import RowTables
from pool.tasks.chess.perspective.config import ExportTensor
from pool.tasks.chess.perspective.shape import Floats, Shape
from pool.tasks.chess.quantization import Rounding, to_floats, to_integers

TYPES: Mapping[str, type[np.number[Any]]] = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32}


@dataclass(frozen=True)
class Net:
    """The network in an exported file. Tensors are shaped as in pool.tasks.chess.perspective.shape, with factorisers
    merged. l0w may be there in blocks."""

    shape: Shape
    entries: tuple[ExportTensor, ...]
    tensors: Mapping[str, npt.NDArray[Any]]  # by name; dtype int8, int16, int32 or float32
    unit: float  # evaluation for an output of 1.0

    def entry(self, name: str) -> ExportTensor:
        """Returns the export settings of a tensor. For l0w in blocks they are those of the first block, which has the
        scale of all."""
        return next(entry for entry in self.entries if entry.weight == name or entry.weight.startswith(f"{name}["))

    @property
    def tables(self) -> RowTables:
        """The blocks of l0w with the number of their first input, in the order of the inputs."""
        blocks = {name: rows.start for name, rows in self.shape.blocks.items() if name in self.tensors}
        return [(first, self.tensors[name]) for name, first in (blocks or {"l0w": 0}).items()]


def quantise(floats: Floats, shape: Shape, entries: Sequence[ExportTensor], unit: float) -> Net:
    """Converts floats to the numbers of an exported file. Raises ValueError for a value that does not fit its type, and
    for a factoriser that would be lost."""
    for entry in entries:
        _check_merge(entry, shape)
    folded = shape.merge_factorisers(floats)
    tensors = {entry.weight: _numbers(entry, shape.select(folded, entry.weight)) for entry in entries}
    return Net(shape, tuple(entries), tensors, unit)


def dequantise(net: Net) -> dict[str, npt.NDArray[np.float32]]:
    """Returns floats from which `quantise` makes the same numbers again. Factorisers are 0. Raises ValueError for
    integers that are too large for float32 to hold exactly."""
    floats = {entry.weight: _floats(entry, net.tensors[entry.weight]) for entry in net.entries}
    zeros = {name: np.zeros(net.shape.tensors[name], np.float32) for name in net.shape.factorisers}
    return {**net.shape.join_blocks(floats), **zeros}


def roundings(entries: Sequence[ExportTensor]) -> dict[str, Rounding]:
    """Returns for each tensor stored as integers how it is rounded. If l0w is in blocks, there is an entry for l0w too,
    as its blocks differ in their types alone."""
    rules = {entry.weight: _rounding(entry) for entry in entries if entry.type != "f32"}
    of_block = next((rule for name, rule in rules.items() if name.startswith("l0w[")), None)
    return rules if of_block is None else {"l0w": of_block, **rules}


def _check_merge(entry: ExportTensor, shape: Shape) -> None:
    """Checks that a tensor's entry does not lose a factoriser: a quantised file must have it merged into its target.
    Raises ValueError."""
    for factoriser, target in shape.factorisers.items():
        if entry.weight == factoriser:
            raise ValueError(
                f"model.export: {factoriser}: a quantised file has it merged into {target} only, as "
                f'merge = "{factoriser}" there does'
            )
        if entry.weight in (target, f"{target}[pieces]") and entry.merge is None:
            raise ValueError(
                f'model.export: {entry.weight}: without merge = "{factoriser}" what the factoriser has learnt would be '
                "lost"
            )


def _numbers(entry: ExportTensor, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Converts the floats of a tensor to the numbers of the file. Raises ValueError for a value that does not fit."""
    if entry.type == "f32":
        broken = int(np.count_nonzero(~np.isfinite(values)))
        if broken:
            raise ValueError(f"{entry.weight}: {broken} of {values.size} values are not finite")
        return (values.astype(np.float64) * entry.scale).astype(np.float32)
    return to_integers(entry.weight, values, _rounding(entry), clip=False)


def _floats(entry: ExportTensor, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Converts the numbers of a tensor in the file to floats. Raises ValueError as `to_floats` does."""
    if entry.type == "f32":
        return (values.astype(np.float64) / entry.scale).astype(np.float32)
    return to_floats(entry.weight, values, _rounding(entry))


def _rounding(entry: ExportTensor) -> Rounding:
    """Returns how a tensor is rounded, with the advice to give if a value does not fit."""
    kind = TYPES[entry.type]
    assert issubclass(kind, np.signedinteger)
    most = np.iinfo(kind).max / entry.scale
    limit = math.floor(most * 1000) / 1000
    if "[" in entry.weight:
        remedy = f'trained with model.clip_tensors = {{ "{entry.weight}" = {limit:g} }} it would fit'
    elif entry.weight.startswith("l0"):
        remedy = f"a scale of the export below {entry.scale:g} makes room"
    else:
        remedy = f"trained with model.clip_weights = {limit:g} it would fit"
    return Rounding(entry.scale, kind, mode="half away from zero" if entry.round else "towards zero", remedy=remedy)

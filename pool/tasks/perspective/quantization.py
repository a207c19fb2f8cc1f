"""From the floats of a network to the numbers of an exported file, and back. Free of torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.quantization import Rounding, to_floats, to_integers
from pool.tasks.perspective.config import ExportTensor
from pool.tasks.perspective.shape import Floats, Shape

TYPES: Mapping[str, type[np.number[Any]]] = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32}


@dataclass(frozen=True)
class Net:
    """The contents of an exported file. Tensors are shaped as in pool.tasks.perspective.shape, l0f merged into l0w."""

    shape: Shape
    entries: tuple[ExportTensor, ...]
    tensors: Mapping[str, npt.NDArray[Any]]  # by name; int8, int16, int32 or float32
    unit: float  # of an evaluation: what an output of 1.0 is

    def entry(self, name: str) -> ExportTensor:
        return next(entry for entry in self.entries if entry.weight == name)


def quantise(floats: Floats, shape: Shape, entries: Sequence[ExportTensor], unit: float) -> Net:
    """Returns the numbers of an exported file. Raises ValueError for a value that does not fit its type, and for a
    factoriser that would be lost."""
    if shape.num_virtual:
        for entry in entries:
            _check_merge(entry)
    folded = shape.fold(floats)
    tensors = {entry.weight: _numbers(entry, folded[entry.weight]) for entry in entries}
    return Net(shape, tuple(entries), tensors, unit)


def dequantise(net: Net) -> dict[str, npt.NDArray[np.float32]]:
    """Returns floats that `quantise` turns into the same numbers again; the factoriser is 0. Raises ValueError for
    integers that float32 can't tell apart."""
    floats = {name: _floats(net.entry(name), values) for name, values in net.tensors.items()}
    if net.shape.num_virtual:
        floats["l0f"] = np.zeros(net.shape.tensors["l0f"], np.float32)
    return floats


def roundings(entries: Sequence[ExportTensor]) -> dict[str, Rounding]:
    """Returns the rules of the tensors that are integers."""
    return {entry.weight: _rounding(entry) for entry in entries if entry.type != "f32"}


def _check_merge(entry: ExportTensor) -> None:
    """Raises ValueError for a tensor of a factorised network with which the factoriser would be lost."""
    if entry.weight == "l0f":
        raise ValueError('model.export: l0f: a quantised file has it merged into l0w only, as merge = "l0f" there does')
    if entry.weight == "l0w" and entry.merge is None:
        raise ValueError('model.export: l0w: without merge = "l0f" what the factoriser has learnt would be lost')


def _numbers(entry: ExportTensor, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    if entry.type == "f32":
        broken = int(np.count_nonzero(~np.isfinite(values)))
        if broken:
            raise ValueError(f"{entry.weight}: {broken} of {values.size} values are not finite")
        return (values.astype(np.float64) * entry.scale).astype(np.float32)
    return to_integers(entry.weight, values, _rounding(entry), clip=False)


def _floats(entry: ExportTensor, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if entry.type == "f32":
        return (values.astype(np.float64) / entry.scale).astype(np.float32)
    return to_floats(entry.weight, values, _rounding(entry))


def _rounding(entry: ExportTensor) -> Rounding:
    kind = TYPES[entry.type]
    assert issubclass(kind, np.signedinteger)
    most = np.iinfo(kind).max / entry.scale
    if entry.weight.startswith("l0"):
        remedy = f"a scale of the export below {entry.scale:g} makes room"
    else:
        remedy = f"trained with model.clip_weights = {math.floor(most * 1000) / 1000:g} it would fit"
    return Rounding(entry.scale, kind, way="half away from zero" if entry.round else "towards zero", remedy=remedy)

"""The tensors of an exported file, in order: bullet's four examples by name, or the user's own list."""

from __future__ import annotations

from collections.abc import Sequence

from pool.tasks.perspective.config import ExportTensor, Kind, ModelConfig
from pool.tasks.perspective.shape import Shape

QA = 255  # of the first layer
QB = 64  # of the weights behind it


def export_list(model: ModelConfig, shape: Shape) -> tuple[ExportTensor, ...]:
    """Returns the user's own list, or if it is empty the example of that name (`model.export_as`). Raises ValueError
    for a list that does not have each tensor of such a network once."""
    own = (model.export, "model.export")
    entries, key = own if model.export else (_example(model.export_as, shape), "model.export_as")
    _check(entries, shape, key)
    return entries


def _example(name: str, shape: Shape) -> tuple[ExportTensor, ...]:
    if name == "auto":
        name = _by_shape(shape)
    merge = shape.num_virtual > 0 and name in ("input_buckets", "multi_layer")
    first = (
        _entry("l0w", "i16", QA).model_copy(update={"merge": "l0f" if merge else None}),
        _entry("l0b", "i16", QA),
    )
    if name == "multi_layer":
        rest = [_entry("l1w", "i8", QB, transpose=True), _entry("l1b", "f32")]
        for number in range(2, len(shape.layers) + 1):
            rest += [_entry(f"l{number}w", "f32", transpose=True), _entry(f"l{number}b", "f32")]
        return (*first, *rest)
    return (*first, _entry("l1w", "i16", QB, transpose=name != "simple"), _entry("l1b", "i16", QA * QB))


def _entry(weight: str, kind: Kind, scale: float = 1.0, *, transpose: bool = False) -> ExportTensor:
    return ExportTensor(weight=weight, type=kind, scale=scale, transpose=transpose)


def _by_shape(shape: Shape) -> str:
    if shape.hidden or shape.activation == "pairwise":
        return "multi_layer"
    if shape.num_virtual:
        return "input_buckets"
    return "simple" if shape.buckets == 1 else "output_buckets"


def _check(entries: Sequence[ExportTensor], shape: Shape, key: str) -> None:
    names = [entry.weight for entry in entries]
    known = shape.tensors
    for name in names:
        if name not in known:
            raise ValueError(f"{key}: this network has no {name}; it has {', '.join(known)}")
        if names.count(name) > 1:
            raise ValueError(f"{key}: {name} is there {names.count(name)} times")
    missing = [name for name in known if name not in names and name != "l0f"]
    if missing:
        raise ValueError(f"{key}: {', '.join(missing)}: missing; every tensor of the network must be there")
    for entry in entries:
        if entry.merge is not None and (entry.weight != "l0w" or not shape.num_virtual):
            which = "l0w" if shape.num_virtual else "no tensor of a network without factoriser"
            raise ValueError(f"{key}: {entry.weight}: merge = {entry.merge} is for {which}")

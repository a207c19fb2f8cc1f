"""Chooses the tensors of an exported file and their order: one of bullet's four examples, or the user's own list."""

from __future__ import annotations

from collections.abc import Sequence

from pool.tasks.chess.perspective.config import ExportTensor, Kind, ModelConfig
from pool.tasks.chess.perspective.shape import Shape

QA = 255  # scale of the first layer in bullet's examples
QB = 64  # scale of the weights after the first layer


def list_exported_tensors(model: ModelConfig, shape: Shape) -> tuple[ExportTensor, ...]:
    """Returns the tensors to export: the user's own list (`model.export`), or if that is empty the example named by
    `model.export_as`. Raises ValueError for a list that does not have each tensor of the network once."""
    if model.export:
        _check(model.export, shape, "model.export")
        return model.export
    entries = _adapt_example(model.export_as, shape)
    _check(entries, shape, "model.export_as")
    return entries


def _adapt_example(name: str, shape: Shape) -> tuple[ExportTensor, ...]:
    """Returns the list of one of bullet's examples, extended to the layers and factorisers of this network."""
    if name == "auto":
        name = _choose_example(shape)
    first = (_entry("l0w", "i16", QA), _entry("l0b", "i16", QA))
    if name == "multi_layer":
        layers = [_entry("l1w", "i8", QB, transpose=True), _entry("l1b", "f32")]
        for number in range(2, len(shape.layers) + 1):
            layers += [_entry(f"l{number}w", "f32", transpose=True), _entry(f"l{number}b", "f32")]
    else:
        layers = [_entry("l1w", "i16", QB, transpose=name != "simple"), _entry("l1b", "i16", QA * QB)]
    merges = {target: factoriser for factoriser, target in shape.factorisers.items()}
    if name in ("simple", "output_buckets"):
        merges.pop("l0w", None)
    return tuple(entry.model_copy(update={"merge": merges.get(entry.weight)}) for entry in (*first, *layers))


def _entry(weight: str, kind: Kind, scale: float = 1.0, *, transpose: bool = False) -> ExportTensor:
    return ExportTensor(weight=weight, type=kind, scale=scale, transpose=transpose)


def _choose_example(shape: Shape) -> str:
    """Returns the name of bullet's example that has a network of this shape."""
    if shape.hidden or shape.activation == "pairwise":
        return "multi_layer"
    if shape.num_virtual:
        return "input_buckets"
    return "simple" if shape.buckets == 1 else "output_buckets"


def _check(entries: Sequence[ExportTensor], shape: Shape, key: str) -> None:
    """Checks a list of tensors: each must be there once, whole or in blocks, with settings that fit. Raises ValueError
    that names `key`."""
    names = [entry.weight for entry in entries]
    blocks = [name for name in shape.blocks if name in names]
    tensors = {**shape.tensors, **shape.blocks}
    for name in names:
        if name not in tensors:
            raise ValueError(f"{key}: this network has no {name}; it has {', '.join(tensors)}")
        if names.count(name) > 1:
            raise ValueError(f"{key}: {name} is there {names.count(name)} times")
    if blocks and "l0w" in names:
        raise ValueError(f"{key}: l0w and {blocks[0]}: list the whole or all its blocks")
    optional = {*shape.factorisers, "l0w"} if blocks else {*shape.factorisers, *shape.blocks}
    missing = [name for name in tensors if name not in names and name not in optional]
    if missing:
        raise ValueError(f"{key}: {', '.join(missing)}: missing; every tensor of the network must be there")
    if len({(entry.scale, entry.round) for entry in entries if entry.weight in blocks}) > 1:
        raise ValueError(f"{key}: {', '.join(blocks)}: the same scale and round are expected, since they are added up")
    for layer in shape.factorised_layers:
        if (f"l{layer}fw" in names) != (f"l{layer}fb" in names):
            raise ValueError(f"{key}: l{layer}fw and l{layer}fb: list both or neither")
    for entry in entries:
        _check_merge(entry, shape, key)
        _check_chunk(entry, shape, key)


def _check_merge(entry: ExportTensor, shape: Shape, key: str) -> None:
    if entry.merge is None:
        return
    target = shape.factorisers.get(entry.merge)
    if target is None or entry.weight not in (target, f"{target}[pieces]"):
        expected = target or "no tensor of a network without factoriser"
        raise ValueError(f"{key}: {entry.weight}: merge = {entry.merge} is for {expected}")


def _check_chunk(entry: ExportTensor, shape: Shape, key: str) -> None:
    if entry.chunk is None:
        return
    inputs = shape.sizes(entry.weight)[-1]
    if entry.weight.startswith("l0") or not entry.weight.endswith("w"):
        raise ValueError(f"{key}: {entry.weight}: chunk is for the weights of a layer behind the first")
    if entry.transpose:
        raise ValueError(f"{key}: {entry.weight}: transpose and chunk are two orders: one of them")
    if inputs % entry.chunk:
        raise ValueError(f"{key}: {entry.weight}: chunk = {entry.chunk} does not divide its {inputs} inputs")

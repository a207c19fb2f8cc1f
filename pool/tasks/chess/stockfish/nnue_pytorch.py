"""Reads the network in a checkpoint of nnue-pytorch (a .ckpt or a .pt file), as the floats of a Net.

The names in its state_dict have changed over the years. These are known, each with or without `model.` in front:

    input.weight, input.bias                   all feature sets one behind the other, [inputs, l1 + 8]: outputs, PSQT
    input.features.0.weight, ...               or one table for each
    input.virtual_weight                       the factoriser [768, l1 + 8], else the last rows of input.weight
    layer_stacks.l1.weight, l2, output         [8 * outputs, inputs], with `.linear` before `.weight` since 2026
    layer_stacks.l1_fact.weight                what is added to fc_0 of all buckets; since 2026 l1.factorized_linear

HalfKAv2_hm has 11 planes of 64 squares for each king bucket (the kings share one), or 12.

torch loads the file's weights alone, and no code in the file is run (I7). Objects of classes that such files are known
to hold (settings, optimizers, the model itself) are replaced by objects that do nothing. Any other class or function is
refused.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import pool.tasks.chess.stockfish.halfka as halfka
from loader.errors import DataError
from loader.files.compression import find_decompress_command
from loader.files.regular import open_regular
from loader.plugins.error_text import format_error
from pool.tasks.chess.stockfish.quantization import Floats
from pool.tasks.chess.stockfish.versions import FC_1_OUT, L1_STEP, MAX_L1, NUM_BUCKETS, VERSIONS, Table, Version

if TYPE_CHECKING:
    from torch import Tensor

# late imports: torch takes a second, which only such a checkpoint is worth

SUFFIXES = (".ckpt", ".pt")
_WITH_12_PLANES = halfka.INPUTS // halfka.PLANES * 12
_PREFIXES = ("model.", "_orig_mod.")

_MAX_DEPTH = 32  # nested modules

# Packages whose names come up in checkpoints, as classes of settings, of optimizers, of parts of the model; and what
# pickle makes plain values of.
_ALLOWED_PACKAGES = (
    "torch", "numpy", "collections", "argparse", "pathlib", "enum", "lightning", "lightning_fabric", "torchmetrics",
    "lightning_utilities", "pytorch_lightning", "ranger", "ranger21", "schedulefree", "model", "nnue_pytorch",
    "feature_set", "feature_block", "features", "feature_transformer", "halfka_v2_hm", "data_loader", "config",
    "datetime", "decimal", "fractions", "uuid",
)  # fmt: skip
_PLAIN = ("set", "frozenset", "list", "dict", "tuple", "slice", "range", "complex", "bytearray", "object")
_ALLOWED_NAMES = {f"{module}.{name}" for module in ("builtins", "__builtin__") for name in _PLAIN}
_ALLOWED_NAMES |= {
    f"{module}.{name}" for module in ("copyreg", "copy_reg") for name in ("_reconstructor", "__newobj__")
}
_CONTAINERS: Mapping[str, type] = {"collections.defaultdict": dict, "collections.deque": list}

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CheckpointNet:
    """The network of a checkpoint, in the floats that pool.tasks.chess.stockfish.quantization takes. Factorisers are
    added in."""

    version: Version
    l1: int
    floats: Floats


def is_checkpoint(path: Path) -> bool:
    """Returns whether the file's name is that of a checkpoint of nnue-pytorch."""
    return path.suffix in SUFFIXES


def read_checkpoint(path: Path) -> CheckpointNet:
    """Reads a checkpoint. The version follows from the shapes. Where versions differ in width alone, it is the one of
    this width, else the newest. Raises DataError that names the tensor, its shape, and what is expected."""
    return _Reader(path).net()


class _Reader:
    """Turns the tensors of a checkpoint into a CheckpointNet, and checks their names, shapes and values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors = {_strip_prefixes(name): tensor for name, tensor in read_tensors(path).items()}

    def net(self) -> CheckpointNet:
        """Builds the network. Raises DataError for a tensor that is missing or does not fit."""
        tables = self._table_names()
        version, l1 = self._find_version(tables)
        self._check_input(tables, l1)
        rows = self._read_rows(version, tables)
        stacks = self._read_stacks(version, l1)
        bias = self._read("input.bias", (l1 + NUM_BUCKETS,))[:l1]
        weights = {table.weight: block[:, :l1] for table, block in zip(_tables_in_order(version), rows, strict=True)}
        psqt = {table.psqt: block[:, l1:] for table, block in zip(_tables_in_order(version), rows, strict=True)}
        return CheckpointNet(version, l1, {"transformer_bias": bias, **weights, **psqt, **stacks})

    def _table_names(self) -> list[str]:
        """Returns the names of the first layer's weights, in the order of the feature sets."""
        if "input.weight" in self._tensors:
            return ["input.weight"]
        names = [f"input.features.{k}.weight" for k in range(8)]
        tables = [name for name in names if name in self._tensors]
        if not tables:
            raise DataError(
                self._path, "no tensor input.weight: not a checkpoint of nnue-pytorch that this program knows"
            )
        return tables

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def _find_version(self, tables: Sequence[str]) -> tuple[Version, int]:
        """Returns the version and width that the shapes of the first layer's tables belong to. Raises DataError if
        there are none."""
        shapes = [self._shape(name) for name in tables]
        inputs = [shape[0] for shape in shapes if len(shape) == 2]
        l1 = shapes[0][-1] - NUM_BUCKETS if len(shapes[0]) == 2 else 0
        fitting = [version for version in VERSIONS.values() if _fits(version, inputs)]
        if len(inputs) != len(shapes) or not fitting:
            known = "; ".join(
                f"{version.name} {_format_sizes(version, len(tables))}" for version in _distinct_versions(len(tables))
            )
            raise DataError(
                self._path,
                f"{' and '.join(tables)}: {_format_shapes(shapes)}, expected is [inputs, l1 + 8] with: {known}",
            )
        if not 0 < l1 <= MAX_L1 or l1 % L1_STEP:
            raise DataError(
                self._path, f"{tables[0]}: {_format_shapes(shapes)}, expected is a multiple of {L1_STEP}, and 8"
            )
        return next((version for version in fitting if version.l1 == l1), fitting[-1]), l1

    def _check_input(self, tables: Sequence[str], l1: int) -> None:
        for name in tables:
            self._check_shape(name, (self._shape(name)[0], l1 + NUM_BUCKETS))

    def _read_rows(self, version: Version, tables: Sequence[str]) -> list[Array]:
        """Returns the rows of each feature set, those of HalfKAv2_hm last, with its factoriser added."""
        blocks = [self._to_float32(name) for name in tables]
        if len(blocks) == 1:
            borders = np.cumsum([table.inputs for table in version.tables[1:]], dtype=np.int64)
            blocks = np.split(blocks[0], borders)
        last = tables[-1]
        virtual = f"{last.removesuffix('weight')}virtual_weight"
        factoriser = None
        if virtual in self._tensors:
            factoriser = self._read(virtual, (halfka.VIRTUAL, blocks[-1].shape[1]))
        return [*blocks[:-1], _merge_piece_rows(blocks[-1], factoriser)]

    def _read_stacks(self, version: Version, l1: int) -> dict[str, Array]:
        """Returns the arrays of the layer stacks, with what all buckets share added to fc_0."""
        outputs = version.fc_0_out
        weight, bias = self._read_layer("l1", NUM_BUCKETS * outputs, l1)
        weight, bias = weight.reshape(NUM_BUCKETS, outputs, l1), bias.reshape(NUM_BUCKETS, outputs)
        for shared in ("l1_fact", "l1.factorized_linear"):
            if f"layer_stacks.{shared}.weight" in self._tensors:
                shared_weight, shared_bias = self._read_linear(shared, outputs, l1)
                weight, bias = weight + shared_weight, bias + shared_bias
        fc_1_weight, fc_1_bias = self._read_layer("l2", NUM_BUCKETS * FC_1_OUT, version.fc_1_in)
        fc_2_weight, fc_2_bias = self._read_layer("output", NUM_BUCKETS, version.fc_2_in)
        return {
            "fc_0_weight": weight,
            "fc_0_bias": bias,
            "fc_1_weight": fc_1_weight.reshape(NUM_BUCKETS, FC_1_OUT, version.fc_1_in),
            "fc_1_bias": fc_1_bias.reshape(NUM_BUCKETS, FC_1_OUT),
            "fc_2_weight": fc_2_weight,
            "fc_2_bias": fc_2_bias,
        }

    def _read_layer(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array]:
        """Returns weight and bias of a layer of the stacks, under its old or its new name."""
        linear = f"{name}.linear"
        return self._read_linear(linear if f"layer_stacks.{linear}.weight" in self._tensors else name, outputs, inputs)

    def _read_linear(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array]:
        weight = self._read(f"layer_stacks.{name}.weight", (outputs, inputs))
        return weight, self._read(f"layer_stacks.{name}.bias", (outputs,))

    def _read(self, name: str, shape: tuple[int, ...]) -> Array:
        """Returns a tensor as float32. Raises DataError if it is missing or has another shape."""
        if name not in self._tensors:
            raise DataError(self._path, f"no tensor {name}, of {list(shape)}")
        self._check_shape(name, shape)
        return self._to_float32(name)

    def _to_float32(self, name: str) -> Array:
        """Returns a tensor as float32. Raises DataError for other types than floats, for fewer stored numbers than its
        shape has, and for numbers that are not finite."""
        tensor = self._tensors[name]
        stored = tensor.untyped_storage().nbytes() // tensor.element_size()
        if not tensor.is_floating_point():
            raise DataError(self._path, f"{name}: {tensor.dtype}; floats are expected")
        if not 0 < tensor.numel() <= stored:
            raise DataError(self._path, f"{name}: {list(tensor.shape)} is more than its {stored:,} numbers")
        numbers: Array = tensor.detach().float().clone().numpy()
        num_infinite = int(np.count_nonzero(~np.isfinite(numbers)))
        if num_infinite:
            raise DataError(self._path, f"{name}: {num_infinite} of {numbers.size} numbers are not finite")
        return numbers

    def _check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Checks the shape of a tensor. Raises DataError."""
        if self._shape(name) != shape:
            raise DataError(self._path, f"{name}: {list(self._shape(name))}, expected is {list(shape)}")


def read_tensors(path: Path) -> Mapping[str, Tensor]:
    """Returns the tensors of a saved file by name. The file holds a state_dict, a dict with one under the key
    `state_dict`, or a whole pickled module. The numbers are read from the file when they are needed. Raises
    DataError."""
    import torch
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    sizes = _storage_sizes(path)
    names: list[str] = []
    try:
        names = get_unsafe_globals_in_checkpoint(path)
        stand_ins: list[Any] = [(_stand_in(name), name) for name in names if _is_allowed(name)]
        with safe_globals(stand_ins), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols other than torch's own
            # Mapped, a storage can't exceed the file. Read into memory, torch would trust the sizes in the pickle.
            tree = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises many kinds of errors for bad files
        refused = [name for name in names if not _is_allowed(name)]
        if refused:
            problem = f"names code or a class that no checkpoint needs, {refused[0]}"
        else:
            problem = f"has an entry that can't be read ({format_error(error):.200}; save the state_dict alone)"
        raise DataError(path, f"{problem}: it is not run, and the file not read") from None
    tensors = {name: value for name, value in _read_state_dict(tree) if isinstance(value, torch.Tensor)}
    if not tensors:
        raise DataError(path, "has no tensors: a state_dict, or a checkpoint with one, is expected")
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise DataError(path, f"{name}: {tensor.layout} on {tensor.device}; plain numbers are expected")
        size = tensor.untyped_storage().nbytes()
        if size not in sizes:
            raise DataError(path, f"{name}: {size:,} bytes are expected, and no storage of the file has so many")
    return tensors


def _storage_sizes(path: Path) -> set[int]:
    """Reads the whole file, and returns the sizes of the entries of its zip archive, in bytes. Raises DataError if it
    is damaged."""
    try:
        descriptor = open_regular(path)
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        program = find_decompress_command(file.read(16))
        if program is not None and program != "unzip -p":
            raise DataError(path, f"is compressed, and a checkpoint is read as it is: {program} {path} > CHECKPOINT")
        try:
            with zipfile.ZipFile(file) as archive:
                return _check_archive(path, archive)
        except DataError:
            raise
        except Exception:  # zipfile raises many kinds of errors for bad bytes
            raise DataError(path, "not a file that torch has saved, or damaged: a zip archive is expected") from None


def _check_archive(path: Path, archive: zipfile.ZipFile) -> set[int]:
    """Returns the sizes of the archive's entries, in bytes. Raises DataError for an entry that is compressed or
    damaged, and whatever zipfile raises."""
    for entry in archive.infolist():
        if entry.compress_type != zipfile.ZIP_STORED:
            raise DataError(path, f"not a file that torch has saved: {entry.filename} is compressed")
    if (damaged := archive.testzip()) is not None:
        raise DataError(path, f"{damaged} is damaged")
    return {entry.file_size for entry in archive.infolist()}


def _is_allowed(name: str) -> bool:
    """Returns whether a checkpoint may hold objects of this class."""
    return name.partition(".")[0] in _ALLOWED_PACKAGES or name in _ALLOWED_NAMES


def _stand_in(name: str) -> Callable[..., object]:
    """Returns a class to load in place of the class `name`. Its objects keep the attributes that pickle gives them,
    take any other state, and do nothing. For containers with entries, which torch fills only if they are of its own
    kinds, returns a function that makes a plain one."""
    if name in _CONTAINERS:
        return lambda *_: _CONTAINERS[name]()

    def ignore(self: object, *_: object) -> None:
        pass

    def set_state(self: object, state: object) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                vars(self).update(part)

    def new(cls: type, *_: object) -> object:
        return object.__new__(cls)

    methods: dict[str, object] = {"__init__": ignore, "__new__": new, "__setstate__": set_state}
    return type(name, (), methods)


def _read_state_dict(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of the state_dict in a loaded file, or of a module's parameters."""
    if not isinstance(tree, dict):
        yield from _read_module(tree, "", 0)
        return
    inner = tree.get("state_dict")
    for name, value in (inner if isinstance(inner, dict) else tree).items():
        if isinstance(name, str):
            yield name, value


def _read_module(module: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yields the parameters of a pickled torch.nn.Module, named as in its state_dict."""
    state = getattr(module, "__dict__", {})
    for name, value in _items(state.get("_parameters")):
        yield f"{prefix}{name}", value
    for name, value in _items(state.get("_modules")):
        if depth < _MAX_DEPTH:
            yield from _read_module(value, f"{prefix}{name}.", depth + 1)


def _items(mapping: Any) -> Sequence[tuple[Any, Any]]:
    return list(mapping.items()) if isinstance(mapping, dict) else []


def _strip_prefixes(name: str) -> str:
    """Returns a tensor's name without the prefixes that Lightning and torch.compile add."""
    while name.startswith(_PREFIXES):
        name = name.removeprefix("model.").removeprefix("_orig_mod.")
    return name.replace("._orig_mod.", ".")


def _tables_in_order(version: Version) -> list[Table]:
    """Returns the version's tables in nnue-pytorch's order: that of HalfKAv2_hm last."""
    return [*version.tables[1:], version.tables[0]]


def _fits(version: Version, inputs: Sequence[int]) -> bool:
    """Returns whether tables with these numbers of inputs can be those of the version."""
    more = [table.inputs for table in version.tables[1:]]
    if len(inputs) == 1:
        return inputs[0] - sum(more) in _PIECE_INPUTS
    *others, pieces = inputs or [0]
    return others == more and pieces in _PIECE_INPUTS


_PIECE_INPUTS = (halfka.INPUTS, halfka.INPUTS + halfka.VIRTUAL, _WITH_12_PLANES)


def _distinct_versions(num_tables: int) -> list[Version]:
    """Returns one version for each set of inputs. With several tables, only versions of that many."""
    by_inputs: dict[tuple[int, ...], Version] = {}
    for version in VERSIONS.values():
        by_inputs.setdefault(tuple(table.inputs for table in version.tables), version)
    return [version for version in by_inputs.values() if num_tables == 1 or len(version.tables) == num_tables]


def _format_sizes(version: Version, tables: int) -> str:
    """Returns the numbers of inputs that a version's tables may have, for the message of an error."""
    more = [table.inputs for table in version.tables[1:]]
    if tables == 1:
        return " or ".join(f"{sum(more) + pieces}" for pieces in _PIECE_INPUTS)
    return ", ".join(map(str, [*more, _WITH_12_PLANES]))


def _format_shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def _merge_piece_rows(rows: Array, factoriser: Array | None) -> Array:
    """Converts the rows of HalfKAv2_hm to 11 planes, [22528, l1 + 8], with the factoriser added."""
    virtual = halfka.virtual_features()
    if len(rows) == halfka.INPUTS + halfka.VIRTUAL:
        rows, factoriser = rows[: halfka.INPUTS], rows[halfka.INPUTS :]
    elif len(rows) == _WITH_12_PLANES:
        bucket = np.arange(halfka.INPUTS) // (halfka.PLANES * halfka.SQUARES)
        rows = rows[bucket * 12 * halfka.SQUARES + virtual]
    return rows if factoriser is None else rows + factoriser[virtual]

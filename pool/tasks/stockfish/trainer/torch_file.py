"""The tensors of a file that torch has saved, by name. Free of torch, and of pickle.

The file is a zip archive: `data.pkl` says what there is, `data/KEY` has the numbers of a storage. Only those that are
asked for are read. What does not fit ends in a DataError (I8).
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from pool.tasks.stockfish.trainer.pickled import BadPickleError, Call, Name, Persistent, described

_LARGEST_PICKLE = 1 << 26
_MOST_DIMENSIONS = 8
_DEEPEST = 32
_STORAGES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2"}


@dataclass(frozen=True)
class StoredTensor:
    """Not read yet."""

    storage: str  # kind of its storage, as torch calls it
    key: str
    numbers: int  # of the storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TorchFile:
    """The tensors of a state_dict, of what lies under the key `state_dict`, or of a whole pickled module."""

    def __init__(self, path: Path) -> None:
        """Raises DataError."""
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                tree = self._tree(archive)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError):
            raise DataError(path, "not a file that torch has saved: a zip archive is expected") from None
        except OSError as error:
            raise DataError(path, f"can't be read: {error.strerror}") from None
        self.tensors: Mapping[str, StoredTensor] = dict(_tensors(tree))
        if not self.tensors:
            raise DataError(path, "has no tensors: a state_dict, or a checkpoint with one, is expected")

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """Raises DataError."""
        tensor = self.tensors[name]
        if tensor.storage not in _STORAGES:
            raise DataError(self._path, f"{name}: a {tensor.storage}; floats are expected")
        kind = np.dtype(_STORAGES[tensor.storage])
        steps = zip(tensor.shape, tensor.strides, strict=True)
        last = tensor.offset + sum((extent - 1) * stride for extent, stride in steps)
        if not 0 < math.prod(tensor.shape) <= tensor.numbers or last >= tensor.numbers:
            raise DataError(self._path, f"{name}: {list(tensor.shape)} is more than its {tensor.numbers:,} numbers")
        flat = np.frombuffer(self._storage(tensor, name, kind.itemsize), kind)[tensor.offset :]
        strides = tuple(stride * kind.itemsize for stride in tensor.strides)
        view = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        numbers: npt.NDArray[np.float32] = view.astype(np.float32)
        if broken := int(np.count_nonzero(~np.isfinite(numbers))):
            raise DataError(self._path, f"{name}: {broken} of {numbers.size} numbers are not finite")
        return numbers

    def _tree(self, archive: zipfile.ZipFile) -> Any:
        self._folder = next((name[: -len("data.pkl")] for name in archive.namelist() if name.endswith("/data.pkl")), "")
        if not self._folder:
            raise DataError(self._path, "not a file that torch has saved: no data.pkl in it")
        if f"{self._folder}byteorder" in archive.namelist():
            order = archive.read(f"{self._folder}byteorder")[:8]
            if order != b"little":
                raise DataError(self._path, "its numbers are not little endian")
        entry = archive.getinfo(f"{self._folder}data.pkl")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise DataError(self._path, f"not a file that torch has saved: {entry.filename} is compressed")
        if entry.file_size > _LARGEST_PICKLE:
            raise DataError(self._path, f"its data.pkl has {entry.file_size:,} bytes, more than a network needs")
        try:
            return described(archive.read(entry))
        except BadPickleError as error:
            raise DataError(self._path, f"{entry.filename}, offset {error.offset}: {error}") from None

    def _storage(self, tensor: StoredTensor, name: str, item: int) -> bytes:
        try:
            with zipfile.ZipFile(self._path) as archive:
                entry = archive.getinfo(f"{self._folder}data/{tensor.key}")
                if entry.file_size != tensor.numbers * item or entry.compress_type != zipfile.ZIP_STORED:
                    raise DataError(
                        self._path,
                        f"{name}: {entry.file_size:,} bytes, and {tensor.numbers * item:,} are expected",
                        entry.header_offset,
                    )
                return archive.read(entry)
        except KeyError:
            raise DataError(self._path, f"{name}: its numbers are missing ({self._folder}data/{tensor.key})") from None
        except (zipfile.BadZipFile, EOFError, RuntimeError):
            raise DataError(self._path, f"{name}: its numbers are damaged") from None
        except OSError as error:
            raise DataError(self._path, f"can't be read: {error.strerror}") from None


def _tensors(tree: Any) -> Iterator[tuple[str, StoredTensor]]:
    items = _items(tree)
    inner = items.get("state_dict")
    if inner is not None:
        items = _items(inner)
    for name, value in items.items():
        if isinstance(name, str) and (tensor := _tensor(value)) is not None:
            yield name, tensor
    if isinstance(tree, Call):
        yield from _of_module(tree, "", 0)


def _of_module(module: Call, begin: str, depth: int) -> Iterator[tuple[str, StoredTensor]]:
    """Of a pickled torch.nn.Module, named as in its state_dict."""
    state = module.state if isinstance(module.state, dict) else {}
    for name, value in _items(state.get("_parameters")).items():
        if (tensor := _tensor(value)) is not None:
            yield f"{begin}{name}", tensor
    for name, value in _items(state.get("_modules")).items():
        if isinstance(value, Call) and depth < _DEEPEST:
            yield from _of_module(value, f"{begin}{name}.", depth + 1)


def _items(tree: Any) -> dict[Any, Any]:
    """Of a dictionary, or of what would be one."""
    return tree if isinstance(tree, dict) else tree.items if isinstance(tree, Call) else {}


def _tensor(value: Any) -> StoredTensor | None:
    """None for anything else."""
    if isinstance(value, Call) and value.of == Name("torch._utils", "_rebuild_parameter") and value.arguments:
        value = value.arguments[0]
    if not isinstance(value, Call) or value.of != Name("torch._utils", "_rebuild_tensor_v2"):
        return None
    match value.arguments:
        case (Persistent(("storage", Name("torch", kind), str(key), _, int(numbers))), int(offset), shape, strides, *_):
            sizes = (*_whole(shape), *_whole(strides), numbers, offset)
            if (
                isinstance(shape, tuple)
                and isinstance(strides, tuple)
                and len(shape) == len(strides)
                and min(sizes) >= 0
            ):
                return StoredTensor(kind, key, numbers, offset, shape, strides)
    return None


def _whole(numbers: Any) -> tuple[int, ...]:
    """-1 if they are no sizes."""
    fit = isinstance(numbers, tuple) and len(numbers) <= _MOST_DIMENSIONS
    return numbers if fit and all(type(number) is int for number in numbers) else (-1,)

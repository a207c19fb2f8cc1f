"""Reads and writes files of bullet's formats: numbers and nothing else, little endian. Free of torch.

The format follows from the name. Files named *raw.bin are raw, files named *weights.bin are weights, all others are
quantised. quantised: the tensors of the list one after the other without padding, then the letters `bullet` repeated up
to a multiple of 64 bytes. raw: the list's tensors as float32, input by input, without padding. weights: for each
tensor, ordered by name, its name, a line end, the count, and that many float32. A file that does not fit raises a
DataError that names file and offset (I8).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from loader.files.compression import find_decompress_command
from loader.files.regular import open_regular, read_regular
from pool.tasks.chess.perspective.config import ExportTensor
from pool.tasks.chess.perspective.layout import from_file_order, to_file_order
from pool.tasks.chess.perspective.quantization import TYPES, Net, dequantise, quantise
from pool.tasks.chess.perspective.shape import Floats, Shape

RAW = "raw.bin"
WEIGHTS = "weights.bin"
ALIGNMENT = 64
_LETTERS = b"bullet"
_FLOAT = np.dtype("<f4")
_COUNT = np.dtype("<u8")
_MAX_NAME_LENGTH = 64


def read_bytes(path: Path, shape: Shape, entries: Iterable[ExportTensor]) -> bytes:
    """Reads the file of a network of this shape. Raises DataError, also for a file that is larger than such a network's
    can be."""
    max_size = _max_size(path, shape, entries)
    with _data_errors(path):
        data = read_regular(path, max_size)
    if len(data) != max_size:  # at the right size, numbers may look like a compressed file's beginning
        _refuse_compressed(path, data)
    return data


def check_readable(path: Path) -> None:
    """Checks that `path` is a regular file that can be read and is not compressed. Raises DataError."""
    with _data_errors(path), os.fdopen(open_regular(path), "rb") as file:
        _refuse_compressed(path, file.read(16))


@contextmanager
def _data_errors(path: Path) -> Iterator[None]:
    """Turns the OSErrors of reading `path` into DataErrors that name it."""
    try:
        yield
    except IsADirectoryError:
        raise DataError(path, "is a folder, not a network's file") from None
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None


def _refuse_compressed(path: Path, head: bytes) -> None:
    """Raises DataError if a file begins as a compressed one does. `head` are its first bytes."""
    if (program := find_decompress_command(head)) is not None:
        raise DataError(path, f"is compressed, and a network's file is read as it is: {program} {path} > NET.bin")


def parse_net(data: bytes, shape: Shape, entries: Sequence[ExportTensor], unit: float, path: Path) -> Net:
    """Parses a network's file. A file of floats gives the network that they would be exported as. Raises DataError, and
    ValueError for floats that do not fit."""
    if not holds_floats(path):
        return parse_quantised(data, shape, entries, unit, path)
    return quantise(parse_floats(data, shape, entries, path), shape, entries, unit)


def parse_floats(data: bytes, shape: Shape, entries: Sequence[ExportTensor], path: Path) -> Floats:
    """Parses a network's file to floats. Raises DataError, and ValueError for integers that are too large for float32
    to hold exactly."""
    if path.name.endswith(RAW):
        return parse_raw(data, shape, entries, path)
    if path.name.endswith(WEIGHTS):
        return parse_weights(data, shape, path)
    return dequantise(parse_quantised(data, shape, entries, 1.0, path))


def holds_floats(path: Path) -> bool:
    """Returns whether the file's name is that of a file of floats."""
    return path.name.endswith((RAW, WEIGHTS))


def content_size(shape: Shape, entries: Iterable[ExportTensor]) -> int:
    """Returns the size of the list's tensors in a quantised file, in bytes."""
    return sum(int(np.prod(shape.sizes(entry.weight))) * np.dtype(TYPES[entry.type]).itemsize for entry in entries)


def file_size(shape: Shape, entries: Iterable[ExportTensor]) -> int:
    """Returns the size of a quantised file, in bytes."""
    size = content_size(shape, entries)
    return size + -size % ALIGNMENT


def _max_size(path: Path, shape: Shape, entries: Iterable[ExportTensor]) -> int:
    """Returns the largest size, in bytes, that a file of this name may have."""
    if path.name.endswith(RAW):
        return _FLOAT.itemsize * sum(int(np.prod(shape.sizes(entry.weight))) for entry in entries)
    if path.name.endswith(WEIGHTS):
        floats = _FLOAT.itemsize * sum(int(np.prod(sizes)) for sizes in shape.tensors.values())
        return floats + sum(len(name) + 1 + _COUNT.itemsize for name in shape.tensors)
    return file_size(shape, entries)


def quantised_bytes(net: Net) -> bytes:
    """Returns the bytes of a quantised file."""
    data = b"".join(_tensor_bytes(entry, net.tensors[entry.weight]) for entry in net.entries)
    missing = -len(data) % ALIGNMENT
    return data + bytes(itertools.islice(itertools.cycle(_LETTERS), missing))


def parse_quantised(data: bytes, shape: Shape, entries: Sequence[ExportTensor], unit: float, file: Path) -> Net:
    """Parses a quantised file. The bytes that follow the last tensor, fewer than 64, may be anything. Raises
    DataError."""
    tensors = {}
    offset = 0
    for entry in entries:
        dtype = np.dtype(TYPES[entry.type]).newbyteorder("<")
        sizes = shape.sizes(entry.weight)
        flat = _read_numbers(data, offset, dtype, sizes, entry.weight, file)
        tensors[entry.weight] = from_file_order(entry.weight, flat, sizes, transpose=entry.transpose, chunk=entry.chunk)
        offset += flat.nbytes
    if len(data) >= offset + ALIGNMENT or len(data) > offset + -offset % ALIGNMENT:
        raise DataError(
            file, f"{len(data):,} bytes; a network of this shape has {offset + -offset % ALIGNMENT:,}", offset
        )
    return Net(shape, tuple(entries), tensors, unit)


def raw_bytes(floats: Floats, shape: Shape, entries: Iterable[ExportTensor]) -> bytes:
    """Returns the bytes of a raw file with the list's tensors."""
    return b"".join(_float_bytes(entry.weight, shape.select(floats, entry.weight)) for entry in entries)


def parse_raw(
    data: bytes, shape: Shape, entries: Sequence[ExportTensor], file: Path
) -> dict[str, npt.NDArray[np.float32]]:
    """Parses a raw file to floats by name. All factorisers must be in the list, as bullet writes l0w without what is to
    be merged into it. Raises DataError."""
    missing = unlisted_factorisers(shape, entries)
    if missing:
        without = "^ behind data.chess.features" if "l0f" in missing else "model.factorised_layers"
        raise DataError(
            file,
            f"model.export does not list {missing[0]}, so this file has no factoriser: take weights.bin; or a config "
            f"without {without}, if it is added to {shape.factorisers[missing[0]]} already, as pool export does",
        )
    floats: dict[str, npt.NDArray[np.float32]] = {}
    offset = 0
    for entry in entries:
        floats[entry.weight] = _read_floats(data, offset, shape, entry.weight, file)
        offset += floats[entry.weight].nbytes
    if len(data) != offset:
        raise DataError(file, f"{len(data):,} bytes; a network of this shape has {offset:,}", min(offset, len(data)))
    return shape.join_blocks(floats)


def unlisted_factorisers(shape: Shape, entries: Iterable[ExportTensor]) -> list[str]:
    """Returns the names of the factorisers that are not in the list, and so have no tensor of their own in a file."""
    listed = {entry.weight for entry in entries}
    return [name for name in shape.factorisers if name not in listed]


def weights_bytes(floats: Floats) -> bytes:
    """Returns the bytes of a file of weights with all tensors."""
    parts = []
    for name in sorted(floats):
        data = _float_bytes(name, floats[name])
        parts += [name.encode() + b"\n", np.array(len(data) // _FLOAT.itemsize, _COUNT).tobytes(), data]
    return b"".join(parts)


def parse_weights(data: bytes, shape: Shape, file: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Parses a file of weights to floats by name. Factorisers that it lacks become 0. Raises DataError."""
    floats: dict[str, npt.NDArray[np.float32]] = {}
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset, offset + _MAX_NAME_LENGTH)
        name = data[offset:end].decode("utf-8", "replace") if end >= 0 else ""
        if name not in shape.tensors or name in floats:
            found = f"tensor {name!r}" if name else "no name of a tensor"
            raise DataError(file, f"{found}; expected is each of {', '.join(shape.tensors)} once", offset)
        offset = end + 1
        count = int(_read_numbers(data, offset, _COUNT, (1,), f"the size of {name}", file)[0])
        expected = int(np.prod(shape.tensors[name]))
        if count != expected:
            raise DataError(file, f"{name} has {count:,} numbers; a network of this shape has {expected:,}", offset)
        offset += _COUNT.itemsize
        floats[name] = _read_floats(data, offset, shape, name, file)
        offset += floats[name].nbytes
    missing = [name for name in shape.tensors if name not in floats and name not in shape.factorisers]
    if missing:
        raise DataError(file, f"no tensor {', '.join(missing)}", len(data))
    zeros = {name: np.zeros(shape.tensors[name], np.float32) for name in shape.factorisers if name not in floats}
    return {**floats, **zeros}


def _tensor_bytes(entry: ExportTensor, values: npt.NDArray[Any]) -> bytes:
    """Returns the bytes of one tensor in a quantised file."""
    numbers = to_file_order(entry.weight, values, transpose=entry.transpose, chunk=entry.chunk)
    return numbers.astype(np.dtype(TYPES[entry.type]).newbyteorder("<")).tobytes()


def _float_bytes(name: str, values: npt.NDArray[np.float32]) -> bytes:
    return to_file_order(name, values).astype(_FLOAT).tobytes()


def _read_floats(data: bytes, offset: int, shape: Shape, name: str, file: Path) -> npt.NDArray[np.float32]:
    """Returns the tensor of floats at `offset`. Raises DataError if the file ends before, and for numbers that are not
    finite."""
    sizes = shape.sizes(name)
    flat = _read_numbers(data, offset, _FLOAT, sizes, name, file)
    num_infinite = int(np.count_nonzero(~np.isfinite(flat)))
    if num_infinite:
        raise DataError(file, f"{name}: {num_infinite} of {flat.size} numbers are not finite", offset)
    return from_file_order(name, flat, sizes)


def _read_numbers(
    data: bytes, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], name: str, file: Path
) -> npt.NDArray[Any]:
    """Returns the numbers of a tensor at `offset`, flat, in this machine's byte order. Raises DataError if the file
    ends before."""
    count = int(np.prod(shape))
    if offset + count * dtype.itemsize > len(data):
        raise DataError(file, f"the file ends inside {name}, at {len(data):,} bytes", offset)
    return np.frombuffer(data, dtype, count, offset).astype(dtype.newbyteorder("="))

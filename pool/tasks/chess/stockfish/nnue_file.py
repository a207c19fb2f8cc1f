"""Reads and writes .nnue files, integer for integer and byte for byte. Free of torch.

`versions.Version.blocks` describes the layout. Every hash and size is checked. Version and width follow from the hashes
and from whether numbers are compressed. A file that does not fit raises a DataError that names file, offset, what was
expected and what was found (I8). Files appear completely or not at all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import pool.tasks.chess.stockfish.leb128 as leb128
from loader.errors import DataError
from loader.files.compression import find_decompress_command
from loader.files.regular import read_regular
from pool.tasks.chess.proof import write_whole
from pool.tasks.chess.stockfish.versions import (
    FC_1_OUT,
    L1_STEP,
    MAX_L1,
    NUM_BUCKETS,
    VERSIONS,
    Block,
    Encoding,
    Version,
)

_HEADER = struct.Struct("<III")  # version, network hash, length of the description
_MAX_NBYTES = 1 << 32  # bytes: more than a file of any version has, whatever its width
_STACK_NAMES = ("fc_0_bias", "fc_0_weight", "fc_1_bias", "fc_1_weight", "fc_2_bias", "fc_2_weight")

# Constants of the hashes, which identify the architecture.
_STACK_START = 0xEC42E90D
_ACTIVATION = 0x538D24C7
_AFFINE = 0xCC03DAE4
_MASK = 0xFFFFFFFF

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Net:
    """An integer network of Stockfish. Its arrays, by name, have the shapes and types of its version.

    transformer_bias [l1] is int16. Each feature set has rows of weights [inputs, l1], int16 or int8, and of PSQT values
    [inputs, 8], int32. fc_0, fc_1 and fc_2 have biases [8, out] int32 and weights [8, out, in] int8, with `in` padded
    to a multiple of 32. The first axis of fc_* is the bucket. fc_2 has one output, and no axis for it.
    """

    version: Version
    description: str
    arrays: Mapping[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    @property
    def l1(self) -> int:
        """The number of outputs of the first layer, per side."""
        return len(self["transformer_bias"])


def read_net(path: Path | str) -> Net:
    """Reads and checks a .nnue file. Raises DataError."""
    path = Path(path)
    try:
        return _Reader(path, memoryview(read_regular(path, _MAX_NBYTES))).net()
    except IsADirectoryError:
        raise DataError(path, "is a folder, not a .nnue file (pool export makes one of a checkpoint)") from None
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None


def write_net(net: Net, path: Path | str) -> None:
    """Writes a .nnue file completely or not at all. Raises DataError."""
    write_whole(Path(path), serialize_net(net))


def serialize_net(net: Net) -> bytes:
    """Returns the bytes of a network's .nnue file."""
    return b"".join(_parts(net))


def stack_type(version: Version, l1: int) -> np.dtype[Any]:
    """Returns the numpy dtype of one layer stack in the file: its hash, then its arrays."""
    shapes, kinds = version.shapes(l1), version.kinds()
    fields = [(name, np.dtype(kinds[name]).newbyteorder("<"), shapes[name][1:]) for name in _STACK_NAMES]
    return np.dtype([("hash", "<u4"), *fields])


def _parts(net: Net) -> Iterator[bytes]:
    """Yields the bytes of a network's file, part by part: header, description, first layer, layer stacks."""
    version, l1 = net.version, net.l1
    description = net.description.encode("utf-8", "surrogateescape")
    yield _HEADER.pack(version.word, network_hash(version, l1), len(description))
    yield description
    yield transformer_hash(version, l1).to_bytes(4, "little")
    for block in version.blocks:
        arrays = [net[name] for name in block.names]
        if block.encoding is Encoding.LEB128:
            data = b"".join(leb128.encode(array) for array in arrays)
            yield leb128.MAGIC + len(data).to_bytes(4, "little")
            yield data
        else:
            yield from (array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)
    stacks = np.zeros(NUM_BUCKETS, stack_type(version, l1))
    stacks["hash"] = stack_hash(version, l1)
    for name in _STACK_NAMES:
        stacks[name] = net[name]
    yield stacks.tobytes()


class _Reader:
    """Parses the bytes of a .nnue file from front to back."""

    def __init__(self, file: Path, data: memoryview) -> None:
        self._file = file
        self._data = data
        self._offset = 0

    def net(self) -> Net:
        """Parses the whole file. Raises DataError."""
        self._check_word()
        word, network, length = _HEADER.unpack(self._read_bytes(_HEADER.size, "the header"))
        if _HEADER.size + length + 4 > len(self._data):
            raise self._error(f"the description's length is {length}, but the file ends at {len(self._data)}", 8)
        description = bytes(self._read_bytes(length, "the description")).decode("utf-8", "surrogateescape")
        version, l1 = self._read_architecture(word, network)
        arrays: dict[str, Array] = {}
        for block in version.blocks:
            arrays.update(self._read_block(block, version, l1))
        arrays.update(self._read_stacks(version, l1))
        surplus = len(self._data) - self._offset
        if surplus:
            raise self._error(f"{surplus} bytes too many; the file should end here", self._offset)
        return Net(version, description, arrays)

    def _check_word(self) -> None:
        """Checks the first four bytes. Raises DataError if they are those of no version, with a hint if the file is
        compressed."""
        first_bytes = bytes(self._data[:4])
        words = {version.word for version in VERSIONS.values()}
        if any(first_bytes == word.to_bytes(4, "little")[: len(first_bytes)] for word in words):
            return
        command = find_decompress_command(bytes(self._data[:16]))
        if command is not None:
            raise self._error(f"is compressed, and a .nnue file is read as it is: {command} {self._file} > NET", 0)
        expected = " or ".join(f"{word:#010x}" for word in sorted(words, reverse=True))
        found = int.from_bytes(first_bytes, "little")
        raise self._error(f"not a .nnue file: version {found:#010x}, expected {expected}", 0)

    def _read_architecture(self, word: int, network: int) -> tuple[Version, int]:
        """Reads the first layer's hash, and returns the version and width about which all hashes agree. Raises
        DataError if there is none."""
        start = self._offset
        value = int.from_bytes(self._read_bytes(4, "the transformer's hash"), "little")
        is_compressed = self._data[start + 4 : start + 4 + len(leb128.MAGIC)] == leb128.MAGIC
        fitting = []
        for version in VERSIONS.values():
            l1 = l1_of_transformer_hash(version, value)
            if version.word == word and l1 is not None:
                fitting.append((version, l1))
        if not fitting:
            raise self._error(
                f"another architecture: transformer hash {value:#010x}; known are {_known_hashes()}, "
                "and those of other widths",
                start,
            )
        same_network = [(version, l1) for version, l1 in fitting if network_hash(version, l1) == network]
        if not same_network:
            version, l1 = fitting[0]
            expected = f"expected {network_hash(version, l1):#010x} ({version.engine}, {l1} per side)"
            raise self._error(f"another architecture: network hash {network:#010x}, {expected}", 4)
        same_encoding = [(version, l1) for version, l1 in same_network if _is_compressed(version) == is_compressed]
        if not same_encoding:
            encoding = "compressed" if is_compressed else "not compressed"
            names = ", ".join(version.name for version, _ in same_network)
            raise self._error(f"its numbers are {encoding} (LEB128), unlike those of {names}", start + 4)
        # Of versions that differ in width alone, the one of this width, else the newest.
        for version, l1 in same_encoding:
            if version.l1 == l1:
                return version, l1
        return same_encoding[-1]

    def _read_block(self, block: Block, version: Version, l1: int) -> dict[str, Array]:
        """Parses the arrays of one block of the first layer, raw or compressed."""
        shapes, kinds = version.shapes(l1), version.kinds()
        if block.encoding is Encoding.RAW:
            return {name: self._read_raw(name, shapes[name], kinds[name]) for name in block.names}
        label = " and ".join(block.names)
        start = self._offset
        if self._read_bytes(len(leb128.MAGIC), label) != leb128.MAGIC:
            raise self._error(f"{label}: expected {leb128.MAGIC.decode()}", start)
        length = int.from_bytes(self._read_bytes(4, label), "little")
        begin = self._offset
        data = self._read_bytes(length, label)
        sizes = [int(np.prod(shapes[name])) for name in block.names]
        (kind,) = {kinds[name] for name in block.names}
        try:
            numbers = leb128.decode(data, sum(sizes), kind)
        except leb128.BadNumberError as error:
            raise self._error(f"{label}: {error}", begin + error.offset) from None
        split = np.split(numbers, np.cumsum(sizes)[:-1])
        return {name: part.reshape(shapes[name]) for name, part in zip(block.names, split, strict=True)}

    def _read_raw(self, name: str, shape: tuple[int, ...], kind: type[np.signedinteger[Any]]) -> Array:
        stored = np.dtype(kind).newbyteorder("<")
        data = self._read_bytes(int(np.prod(shape)) * stored.itemsize, name)
        return np.frombuffer(data, stored).reshape(shape).astype(kind)  # copied: aligned, in this machine's byte order

    def _read_stacks(self, version: Version, l1: int) -> dict[str, Array]:
        """Parses the layer stacks, and checks the hash of each. Returns their arrays with the bucket as the first
        axis."""
        kind = stack_type(version, l1)
        start = self._offset
        stacks = np.frombuffer(self._read_bytes(NUM_BUCKETS * kind.itemsize, "stacks"), kind)
        expected = stack_hash(version, l1)
        for number, value in enumerate(stacks["hash"].tolist()):
            if value != expected:
                reason = f"hash of layer stack {number} is {value:#010x}, expected {expected:#010x}"
                raise self._error(reason, start + number * kind.itemsize)
        return {name: np.array(stacks[name], stacks[name].dtype.newbyteorder("=")) for name in _STACK_NAMES}

    def _read_bytes(self, size: int, what: str) -> memoryview:
        """Returns the next `size` bytes and moves on. Raises DataError if the file ends before."""
        end = self._offset + size
        if end > len(self._data):
            reason = f"the file ends inside {what}, which ends at {end}; found {len(self._data)} bytes"
            raise self._error(reason, len(self._data))
        data = self._data[self._offset : end]
        self._offset = end
        return data

    def _error(self, reason: str, offset: int) -> DataError:
        return DataError(self._file, reason, offset)


def _is_compressed(version: Version) -> bool:
    return version.blocks[0].encoding is Encoding.LEB128


def _known_hashes() -> str:
    return ", ".join(f"{transformer_hash(version, version.l1):#010x} ({version.name})" for version in VERSIONS.values())


def transformer_hash(version: Version, l1: int) -> int:
    """Returns the hash that precedes the first layer's parameters in a file."""
    return version.feature_hash ^ (2 * l1)


def l1_of_transformer_hash(version: Version, value: int) -> int | None:
    """Returns the width that a hash of the first layer stands for, or None if it belongs to other inputs."""
    doubled = value ^ version.feature_hash
    l1 = doubled // 2
    return l1 if doubled % 2 == 0 and 0 < l1 <= MAX_L1 and l1 % L1_STEP == 0 else None


def stack_hash(version: Version, l1: int) -> int:
    """Returns the hash that precedes each layer stack in a file."""
    value = _affine(_STACK_START ^ (2 * l1), version.fc_0_out)
    value = _affine((value + _ACTIVATION) & _MASK, FC_1_OUT)
    return _affine((value + _ACTIVATION) & _MASK, 1)


def network_hash(version: Version, l1: int) -> int:
    """Returns the hash in a file's header."""
    return transformer_hash(version, l1) ^ stack_hash(version, l1)


def _affine(previous: int, outputs: int) -> int:
    return ((_AFFINE + outputs) & _MASK) ^ (previous >> 1) ^ ((previous << 31) & _MASK)

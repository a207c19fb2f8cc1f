"""The .nnue file: integers in, the same bytes out. The only code that knows its layout. Free of torch.

Every hash and size is checked, the width of the first layer is taken from the transformer's hash, and
what does not fit ends in a DataError that names file, offset, what was expected and what was found (I8).
Files appear whole or not at all.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from loader.errors import DataError
from loader.files.regular import open_regular
from pool.tasks.chess.whole_file import write_whole
from pool.tasks.stockfish.quantized import arch

_HEADER = struct.Struct("<III")  # version, network hash, length of the description
_COMPRESSED = b"COMPRESSED_LEB128"  # how newer architectures' parameters begin


@dataclass(frozen=True)
class NnueNet:
    """An integer network. Layer stacks lie side by side: the first axis of fc_* is the bucket."""

    description: str
    transformer_bias: npt.NDArray[np.int16]  # [l1]
    transformer_weight: npt.NDArray[np.int16]  # [22528, l1]
    psqt_weight: npt.NDArray[np.int32]  # [22528, 8]
    fc_0_bias: npt.NDArray[np.int32]  # [8, 16]
    fc_0_weight: npt.NDArray[np.int8]  # [8, 16, l1 padded to a multiple of 32]
    fc_1_bias: npt.NDArray[np.int32]  # [8, 32]
    fc_1_weight: npt.NDArray[np.int8]  # [8, 32, 32], of which 30 columns are used
    fc_2_bias: npt.NDArray[np.int32]  # [8]
    fc_2_weight: npt.NDArray[np.int8]  # [8, 32]

    @property
    def l1(self) -> int:
        """Outputs of the first layer, per side."""
        return len(self.transformer_bias)


_TRANSFORMER_FIELDS = ("transformer_bias", "transformer_weight", "psqt_weight")
_STACK_FIELDS = ("fc_0_bias", "fc_0_weight", "fc_1_bias", "fc_1_weight", "fc_2_bias", "fc_2_weight")


def _stack_type(l1: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("hash", "<u4"),
            ("fc_0_bias", "<i4", (arch.FC_0_OUT,)),
            ("fc_0_weight", "i1", (arch.FC_0_OUT, arch.padded(l1))),
            ("fc_1_bias", "<i4", (arch.FC_1_OUT,)),
            ("fc_1_weight", "i1", (arch.FC_1_OUT, arch.padded(arch.FC_1_IN))),
            ("fc_2_bias", "<i4"),
            ("fc_2_weight", "i1", (arch.FC_1_OUT,)),
        ]
    )


def _body_type(l1: int) -> np.dtype[Any]:
    """Everything behind the description."""
    return np.dtype(
        [
            ("hash", "<u4"),
            ("transformer_bias", "<i2", (l1,)),
            ("transformer_weight", "<i2", (arch.NUM_FEATURES, l1)),
            ("psqt_weight", "<i4", (arch.NUM_FEATURES, arch.NUM_BUCKETS)),
            ("stacks", _stack_type(l1), (arch.NUM_BUCKETS,)),
        ]
    )


def read_net(path: Path | str) -> NnueNet:
    """Reads and checks a file. Raises DataError."""
    path = Path(path)
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            return _parse(stream, os.fstat(stream.fileno()).st_size, path)
    except IsADirectoryError:
        raise DataError(path, "is a folder, not a .nnue file (pool export makes one of a checkpoint)") from None
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None


def write_net(net: NnueNet, path: Path | str) -> None:
    """The file appears as a whole or not at all. Raises DataError."""
    write_whole(Path(path), serialize_net(net))


def serialize_net(net: NnueNet) -> bytes:
    """The bytes of the file."""
    body = np.zeros((), _body_type(net.l1))
    body["hash"] = arch.transformer_hash(net.l1)
    body["stacks"]["hash"] = arch.stack_hash(net.l1)
    for name in _TRANSFORMER_FIELDS:
        body[name] = getattr(net, name)
    for name in _STACK_FIELDS:
        body["stacks"][name] = getattr(net, name)
    description = net.description.encode("utf-8", "surrogateescape")
    header = _HEADER.pack(arch.VERSION, arch.network_hash(net.l1), len(description))
    return header + description + body.tobytes()


def _parse(stream: BinaryIO, size: int, file: Path) -> NnueNet:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        _check_version(header, file)
        raise DataError(file, f"the file ends inside the header of {_HEADER.size} bytes", len(header))
    _check_version(header, file)
    _, network, length = _HEADER.unpack(header)
    start = _HEADER.size + length
    if start + 4 > size:
        found = f"the description's length is {length}, but the file ends at {size}"
        raise DataError(file, found, 8)
    description = stream.read(length)
    head = stream.read(4)
    l1 = _check_hashes(network, int.from_bytes(head, "little"), start, file)
    kind = _body_type(l1)
    if start + kind.itemsize != size:
        compressed = stream.read(len(_COMPRESSED)) == _COMPRESSED
        raise _wrong_size(kind, start, size, compressed, file)
    data = head + stream.read(kind.itemsize - len(head))
    if len(data) != kind.itemsize:
        raise DataError(file, "the file became shorter while it was read", start + len(data))
    body = np.frombuffer(data, kind, 1)[0]
    _check_stacks(body["stacks"]["hash"], kind, l1, start, file)
    return NnueNet(
        description.decode("utf-8", "surrogateescape"),
        **{name: _native(body[name]) for name in _TRANSFORMER_FIELDS},
        **{name: _native(body["stacks"][name]) for name in _STACK_FIELDS},
    )


def _check_version(header: bytes, file: Path) -> None:
    found, expected = header[:4], arch.VERSION.to_bytes(4, "little")
    if found != expected[: len(found)]:
        version = int.from_bytes(found, "little")
        raise DataError(file, f"not a .nnue file: version {version:#010x}, expected {arch.VERSION:#010x}", 0)


def _check_hashes(network: int, transformer: int, start: int, file: Path) -> int:
    """The width of the first layer, once both hashes agree about it."""
    l1 = arch.l1_of_transformer_hash(transformer)
    if l1 is None:
        expected = f"expected {arch.transformer_hash(1024):#010x} (HalfKAv2_hm, 1024 per side) or another width's"
        raise DataError(file, f"another architecture: transformer hash {transformer:#010x}, {expected}", start)
    if network != arch.network_hash(l1):
        expected = f"expected {arch.network_hash(l1):#010x} (Stockfish 15.1, {l1} per side)"
        raise DataError(file, f"another architecture: network hash {network:#010x}, {expected}", 4)
    return l1


def _check_stacks(hashes: npt.NDArray[np.uint32], kind: np.dtype[Any], l1: int, start: int, file: Path) -> None:
    expected = arch.stack_hash(l1)
    for bucket, value in enumerate(hashes.tolist()):
        if value != expected:
            offset = start + _offset(kind, "stacks") + bucket * _stack_type(l1).itemsize
            reason = f"hash of layer stack {bucket} is {value:#010x}, expected {expected:#010x}"
            raise DataError(file, reason, offset)


def _wrong_size(kind: np.dtype[Any], start: int, size: int, compressed: bool, file: Path) -> DataError:
    expected = start + kind.itemsize
    if compressed:
        return DataError(file, "compressed parameters (LEB128): a newer architecture than Stockfish 15.1", start + 4)
    if size > expected:
        return DataError(file, f"{size - expected} bytes too many; the file should end here", expected)
    names = [name for name in kind.names or () if start + _offset(kind, name) <= size]
    reason = f"the file ends inside {names[-1]}; expected {expected} bytes, found {size}"
    return DataError(file, reason, size)


def _offset(kind: np.dtype[Any], name: str) -> int:
    fields = kind.fields
    assert fields is not None
    return fields[name][1]


def _native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An aligned copy in this machine's byte order: fields of a packed file are neither."""
    return np.array(array, dtype=array.dtype.newbyteorder("="))

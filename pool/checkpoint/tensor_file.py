"""A safetensors file written as a stream, with a SHA-256 of every MiB of every tensor, so that damage has a place.

The format has no checksum of its own. Layout: 8 bytes length of the header, the header (JSON, padded with
spaces to a multiple of 8), then the tensors, widest elements first, else by name: the same tensors are always
the same bytes. Free of torch: the supervisor looks for the newest good checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.checkpoint.files import Reader, naming, write_new
from pool.errors import CheckpointError

BLOCK = 1 << 20  # bytes of a tensor that one checksum covers
_LENGTH = 8  # bytes of the header's length


@dataclass(frozen=True)
class TensorBytes:
    name: str
    dtype: str  # in the words of safetensors, e.g. F32
    itemsize: int
    shape: tuple[int, ...]
    data: memoryview  # bytes in C order


@dataclass(frozen=True)
class FileSums:
    """What a file held when it was written."""

    nbytes: int
    header_nbytes: int  # with its length
    header: str  # SHA-256
    tensors: Mapping[str, Sequence[str]]  # SHA-256 of each BLOCK bytes, the last one shorter


def write(path: Path, tensors: Sequence[TensorBytes]) -> FileSums:
    """Raises OSError."""
    ordered = sorted(tensors, key=lambda tensor: (-tensor.itemsize, tensor.name))
    entries: dict[str, Any] = {}
    end = 0
    for tensor in ordered:
        begin, end = end, end + tensor.data.nbytes
        entries[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(_LENGTH, "little") + text
    sums: dict[str, list[str]] = {tensor.name: [] for tensor in ordered}

    def pieces() -> Iterator[bytes | memoryview]:
        yield header
        for tensor in ordered:
            for offset in range(0, tensor.data.nbytes, BLOCK):
                block = tensor.data[offset : offset + BLOCK]
                sums[tensor.name].append(hashlib.sha256(block).hexdigest())
                yield block

    write_new(path, pieces())
    return FileSums(len(header) + end, len(header), hashlib.sha256(header).hexdigest(), sums)


def verify(path: Path, sums: FileSums) -> None:
    """Raises CheckpointError that names file, tensor and byte range if the file is not what was written, OSError."""
    with naming(path):
        nbytes = path.stat().st_size
    if nbytes != sums.nbytes:
        raise CheckpointError(f"{path}: is damaged: it has {nbytes} bytes and was written with {sums.nbytes}")
    with Reader(path) as content:
        _compare(path, content, sums)


def _compare(path: Path, content: Reader, sums: FileSums) -> None:
    header = content.take(sums.header_nbytes)
    if hashlib.sha256(header).hexdigest() != sums.header:
        raise CheckpointError(
            f"{path}: header is damaged: bytes 0 to {sums.header_nbytes} differ from what was written"
        )
    offset = sums.header_nbytes
    for name, entry in json.loads(header[_LENGTH:]).items():
        begin, end = entry["data_offsets"]
        damaged: list[tuple[int, int]] = []
        for place, expected in zip(range(begin, end, BLOCK), sums.tensors[name], strict=True):
            block = content.take(min(BLOCK, end - place))
            if hashlib.sha256(block).hexdigest() != expected:
                damaged.append((offset, offset + len(block)))
            offset += len(block)
        if damaged:
            first, last = damaged[0][0], damaged[-1][1]
            raise CheckpointError(
                f"{path}: tensor {name} is damaged: bytes {first} to {last} of the file differ from what was written"
            )

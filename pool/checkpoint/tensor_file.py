"""Writes and verifies safetensors files, with a SHA-256 of every MiB of every tensor, which locates damage.

The format has no checksums of its own. A file has 8 bytes with the length of the header, the header (JSON, padded with
spaces to a multiple of 8 bytes) and the tensors. Tensors with the widest elements come first, then those in order of
their names, so that the same tensors always make the same bytes. Free of torch, because the supervisor looks for the
newest undamaged checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from pool.errors import DamagedCheckpointError
from pool.run_folder import strict_json
from pool.run_folder.files import Reader, write_new

BLOCK = 1 << 20  # bytes of a tensor that one checksum covers
LONGEST_HEADER = 100_000_000  # bytes; other readers of the format take no more
METADATA = "__metadata__"  # the header's entry that describes no tensor
_LENGTH = 8  # bytes of the header's length

DTYPES = {  # dtype in the format -> name of the dtype in torch, bytes of an element
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U64": ("uint64", 8),
    "U32": ("uint32", 4),
    "U16": ("uint16", 2),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}

_Size = Annotated[int, Field(ge=0, lt=1 << 63)]
_Sum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class TensorBytes:
    """A tensor to be written: name, dtype, shape and bytes."""

    name: str
    dtype: str  # dtype name of the safetensors format, e.g. F32
    itemsize: int
    shape: tuple[int, ...]
    data: memoryview  # bytes in C order


@dataclass(frozen=True)
class FileSums:
    """Size and checksums of a file, taken when it was written."""

    nbytes: _Size
    header_nbytes: Annotated[int, Field(ge=_LENGTH, le=LONGEST_HEADER)]  # including the 8 bytes of its length
    header: _Sum  # SHA-256
    tensors: Mapping[str, Sequence[_Sum]]  # SHA-256 of each BLOCK bytes, the last one shorter


@dataclass(frozen=True)
class Entry:
    """Dtype, shape and position of a tensor, as a file's header has them."""

    dtype: str  # one of DTYPES
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]  # begin and end in bytes, counted from the end of the header


Header = Mapping[str, Entry]  # by name, in the order of the bytes
_HEADER = TypeAdapter(dict[str, Entry])


def write(path: Path, tensors: Sequence[TensorBytes], metadata: Mapping[str, str] | None = None) -> FileSums:
    """Writes tensors to a new file, and `metadata` (texts by name) to its header. Returns the checksums.

    Raises OSError.
    """
    ordered = sorted(tensors, key=lambda tensor: (-tensor.itemsize, tensor.name))
    entries: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    end = 0
    for tensor in ordered:
        begin, end = end, end + tensor.data.nbytes
        entries[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(_LENGTH, "little") + text
    sums: dict[str, list[str]] = {tensor.name: [] for tensor in ordered}

    def file_blocks() -> Iterator[bytes | memoryview]:
        yield header
        for tensor in ordered:
            for offset in range(0, tensor.data.nbytes, BLOCK):
                block = tensor.data[offset : offset + BLOCK]
                sums[tensor.name].append(hashlib.sha256(block).hexdigest())
                yield block

    write_new(path, file_blocks())
    return FileSums(len(header) + end, len(header), hashlib.sha256(header).hexdigest(), sums)


def verify(path: Path, sums: FileSums) -> Header:
    """Reads a whole file and compares it with its checksums. Returns its header.

    Raises DamagedCheckpointError, with file, tensor and byte range, if the bytes are not those that were written.
    Raises CheckpointError if sparsepool can't have written such a file. Raises OSError.
    """
    with Reader(path) as content:
        header = _verify_header(path, content, sums)
        _verify_blocks(path, content, sums, header)
    return header


def read_header(path: Path, sums: FileSums) -> Header:
    """Reads and verifies the header of a file, but not its tensors. Raises as `verify`."""
    with Reader(path) as content:
        return _verify_header(path, content, sums)


def _verify_header(path: Path, content: Reader, sums: FileSums) -> Header:
    """Reads the header at the start of a file, and compares it with the checksums. Raises as `verify`."""
    if content.nbytes != sums.nbytes:
        raise DamagedCheckpointError(
            f"{path}: is damaged: it has {content.nbytes} bytes and was written with {sums.nbytes}"
        )
    header = content.read(sums.header_nbytes)
    if hashlib.sha256(header).hexdigest() != sums.header:
        raise DamagedCheckpointError(
            f"{path}: header is damaged: bytes 0 to {sums.header_nbytes} differ from what was written"
        )
    length = int.from_bytes(header[:_LENGTH], "little")
    if length != len(header) - _LENGTH:
        raise strict_json.foreign_content_error(path, f"header of {length} bytes, not {len(header) - _LENGTH}")
    strict_json.parse(header[_LENGTH:], path)
    try:
        entries = _HEADER.validate_json(header[_LENGTH:], strict=True)
    except ValidationError as error:
        raise strict_json.foreign_content_error(
            path, f"header: {strict_json.describe_validation_error(error)}"
        ) from None
    problem = _find_contradiction(entries, sums)
    if problem is not None:
        raise strict_json.foreign_content_error(path, problem)
    return entries


def _find_contradiction(header: Header, sums: FileSums) -> str | None:
    """Describes the first contradiction between a header and the file's sizes; None if there is none.

    The tensors must follow each other without gaps up to the file's end, each as long as its shape says.
    """
    end = 0
    for name, entry in header.items():
        tensor = f"tensor {strict_json.printable(name)}"
        if entry.dtype not in DTYPES:
            return f"{tensor}: dtype {strict_json.printable(entry.dtype)}; known are {', '.join(DTYPES)}"
        nbytes = math.prod(entry.shape) * DTYPES[entry.dtype][1]
        if entry.data_offsets != (end, end + nbytes):
            return f"{tensor}: at bytes {entry.data_offsets}, not ({end}, {end + nbytes}) as its place and shape say"
        num_sums, num_blocks = len(sums.tensors.get(name, ())), -(-nbytes // BLOCK)
        if num_sums != num_blocks:
            return f"{tensor}: {num_sums} checksums for {nbytes} bytes"
        end += nbytes
    unknown = sums.tensors.keys() - header.keys()
    if unknown:
        return f"checksums of a tensor {strict_json.printable(min(unknown))} that is not there"
    if sums.header_nbytes + end != sums.nbytes:
        return f"{sums.nbytes - sums.header_nbytes} bytes of tensors, {end} in the header"
    return None


def _verify_blocks(path: Path, content: Reader, sums: FileSums, header: Header) -> None:
    """Reads the tensors of a file and compares their blocks with the checksums. Raises DamagedCheckpointError."""
    offset = sums.header_nbytes  # in the file
    for name, entry in header.items():
        begin, end = entry.data_offsets
        damaged: list[range] = []  # bytes of the file
        for block_begin, expected in zip(range(begin, end, BLOCK), sums.tensors[name], strict=True):
            block = content.read(min(BLOCK, end - block_begin))
            if hashlib.sha256(block).hexdigest() != expected:
                damaged.append(range(offset, offset + len(block)))
            offset += len(block)
        if damaged:
            first, last = damaged[0].start, damaged[-1].stop
            raise DamagedCheckpointError(
                f"{path}: tensor {strict_json.printable(name)} is damaged: bytes {first} to {last} of the file differ "
                "from what was written"
            )

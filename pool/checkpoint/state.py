"""The plain part of a checkpoint, state.json. Free of torch: the supervisor reads where a run goes on.

The first line holds the format and the SHA-256 of all lines after it, so that no flipped bit goes unnoticed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from loader.files import DataFile
from pool.checkpoint import files, tensor_file
from pool.checkpoint.tensor_file import FileSums
from pool.errors import CheckpointError
from pool.protocol.messages import CursorState

FORMAT = 4
_READ = (3, FORMAT)  # 3 has no validation files and no sums of chunks
FOLDER = "checkpoints"
LAST = "last"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
CHUNK_SUMS = "chunk-sums.safetensors"  # a word a chunk of each stream, if the source compares its chunks
STATE = "state.json"
_FIRST_LINE = re.compile(rb'\{"format": (\d{1,9}), "sha256": "([0-9a-f]{64})",')


@dataclass(frozen=True)
class SavedState:
    """What state.json holds."""

    step: int  # steps done; version of the weights
    cursor: CursorState  # where the next step's first batch begins
    config: Mapping[str, Any]  # of the run that wrote it, resolved
    fingerprint: Mapping[str, str]  # of what the run's bits depend on
    data: Sequence[Sequence[str | int]]  # name and bytes of each training file, in order
    optimizer: Mapping[str, Any]  # numbers of optimizer and schedule
    files: Mapping[str, FileSums]
    validation: Sequence[Sequence[str | int]] = ()  # as `data`, of the validation files


def describe_files(files: Sequence[DataFile]) -> list[list[str | int]]:
    """What SavedState.data says of them: other names or sizes are other data."""
    return [[file.path.name, file.size] for file in files]


def encode_state(state: SavedState) -> bytes:
    """Raises ValueError or TypeError if something in it is not plain data."""
    rest = json.dumps(asdict(state), indent=1)[2:].encode() + b"\n"  # without the brace and line end it begins with
    first = f'{{"format": {FORMAT}, "sha256": "{hashlib.sha256(rest).hexdigest()}",\n'
    return first.encode() + rest


def read_state(checkpoint: Path) -> SavedState:
    """Raises CheckpointError that names the file; OSError if nothing can be said about it."""
    path = checkpoint / STATE
    with _damage(path):
        first, _, rest = files.read_all(path).partition(b"\n")
    line = _FIRST_LINE.fullmatch(first)
    if line is None:
        raise CheckpointError(f"{path}: is damaged or no checkpoint: its first line is not that of a checkpoint")
    if int(line[1]) not in _READ:
        raise CheckpointError(f"{path}: format {int(line[1])}; this version reads {' and '.join(map(str, _READ))}")
    if hashlib.sha256(rest).hexdigest().encode() != line[2]:
        begin = len(first) + 1
        raise CheckpointError(f"{path}: is damaged: bytes {begin} to {begin + len(rest)} differ from what was written")
    try:
        data = json.loads(b"{" + rest)
        sums = {name: FileSums(**entry) for name, entry in data["files"].items()}
        if sums.keys() - {CHUNK_SUMS} != {WEIGHTS, OPTIMIZER}:
            raise ValueError(f"files {', '.join(sums)}")
        for name in ("data", "validation"):
            if any([type(item) for item in entry] != [str, int] for entry in data.get(name, ())):
                raise ValueError(f"{name} is no list of names and sizes")
        missing = {field.name for field in fields(SavedState) if field.default is not MISSING} - data.keys()
        known = {field.name: data[field.name] for field in fields(SavedState) if field.name not in missing}
        return SavedState(**{**known, "cursor": CursorState(**data["cursor"]), "files": sums})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: is damaged or no checkpoint: {type(error).__name__}: {error}") from None


def verify(checkpoint: Path) -> SavedState:
    """Reads every byte. Raises CheckpointError that names file, tensor and byte range; OSError as `read_state`."""
    state = read_state(checkpoint)
    for name, sums in state.files.items():
        with _damage(checkpoint / name):
            tensor_file.verify(checkpoint / name, sums)
    return state


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """A file that is missing or that the disk can't give is damage. Other errors (no permission, no memory, no
    descriptor) say nothing about the file: no reason to go back to an older checkpoint."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO):
            raise CheckpointError(f"{path}: {error.strerror}") from None
        raise

"""A checkpoint in memory: one of two areas that outlive the coordinator (I9). Free of torch: the supervisor looks in.

    page 0    four int64: commit word, where the document begins, where it ends, sum
    page 1    the tensors, each at a multiple of 64 bytes
    then      the document: JSON of what a checkpoint's state.json says, and where each tensor lies

The commit word (step + 1; 0: nothing whole) is taken back before anything else is written and set last. The sum,
CRC-32C of the other words and of all behind page 0, is for a writer that did not die quietly: it may have scribbled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from pool import _native
from pool.checkpoint.disk.tensor_file import TensorBytes
from pool.checkpoint.state import RunState
from pool.crash_points import crash_point
from pool.errors import CheckpointError

PAGE = 4096
ALIGNMENT = 64
_DIGITS = 40  # bytes by which an entry of the document may grow: numbers, offsets

Area = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Placed:
    """A tensor in an area."""

    name: str
    dtype: str  # in the words of safetensors
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Snapshot(RunState):
    """What an area holds, but for the tensors' bytes."""

    tensors: Mapping[str, tuple[Placed, ...]]  # by kind: weights, optimizer


_SNAPSHOT = TypeAdapter(Snapshot)


def area_nbytes(tensors: Sequence[int], document: int) -> int:
    """Room for tensors of so many bytes and a document of about that length."""
    return PAGE + sum(map(_aligned, tensors)) + _aligned(document + (_DIGITS + 32) * len(tensors) + PAGE)


def write(area: Area, state: RunState, tensors: Mapping[str, Sequence[TensorBytes]]) -> Snapshot:
    """Copies state into an area. Raises CheckpointError if it is too large or no plain data; nothing is whole then."""
    head = area[: 4 * 8].view(np.int64)
    crash_point("coordinator.snapshot_begun")
    head[0] = 0
    crash_point("coordinator.snapshot_withdrawn")
    places, begin = _placed(tensors)
    document = _document(state, places)
    end = begin + len(document)
    if end > area.size:
        raise CheckpointError(
            f"the state of weights and optimizer takes {end} bytes, and {area.size} were reserved for it: "
            "it has grown since the first step of the optimizer"
        )
    for kind, placed in places.items():
        for place, tensor in zip(placed, tensors[kind], strict=True):
            area[place.offset : place.offset + place.nbytes] = np.frombuffer(tensor.data, np.uint8)
            crash_point("coordinator.snapshot_tensor_copied")
    area[begin:end] = np.frombuffer(document, np.uint8)
    head[1:3] = begin, end
    head[3] = _sum(area, state.step + 1, begin, end)
    crash_point("coordinator.snapshot_copied")
    head[0] = state.step + 1
    crash_point("coordinator.snapshot_committed")
    return _parsed(document)  # not what was given: the optimizer may go on changing that


def read(area: Area) -> Snapshot | None:
    """What an area holds, every byte of it summed up; None if that is nothing whole."""
    commit, begin, end, total = (int(word) for word in area[: 4 * 8].view(np.int64))
    if commit == 0 or not PAGE <= begin <= end <= area.size or _sum(area, commit, begin, end) != total:
        return None
    return _parsed(area[begin:end].tobytes())


def committed(area: Area) -> int | None:
    """The step that an area says it holds; whether that is so, `read` says."""
    commit = int(area[:8].view(np.int64)[0])
    return commit - 1 if commit else None


def _sum(area: Area, commit: int, begin: int, end: int) -> int:
    words = np.array([commit, begin, end], np.int64).view(np.uint8)
    return _native.crc32c(area[PAGE:end], _native.crc32c(words))


def _placed(tensors: Mapping[str, Sequence[TensorBytes]]) -> tuple[dict[str, list[Placed]], int]:
    """Where each tensor goes, and where the document begins behind them."""
    end = PAGE
    places: dict[str, list[Placed]] = {}
    for kind, entries in tensors.items():
        places[kind] = []
        for entry in entries:
            places[kind].append(Placed(entry.name, entry.dtype, entry.shape, end, entry.data.nbytes))
            end = _aligned(end + entry.data.nbytes)
    return places, end


def _parsed(document: bytes) -> Snapshot:
    return _SNAPSHOT.validate_python(json.loads(document))


def _document(state: RunState, places: Mapping[str, Sequence[Placed]]) -> bytes:
    document = {
        "step": state.step,
        "cursor": asdict(state.cursor),
        "optimizer": state.optimizer.plain(),
        "tensors": {kind: [asdict(place) for place in entries] for kind, entries in places.items()},
        "validations": asdict(state.validations),
    }
    try:
        return json.dumps(document).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"optimizer or schedule keep what is no plain data: {error}") from None


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

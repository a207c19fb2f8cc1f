"""Snapshots: a checkpoint in one of two areas of shared memory that outlive the coordinator (invariant I9).

Free of torch, because the supervisor reads them.

    page 0    four int64: commit word, begin and end of the document (bytes), checksum
    page 1    the tensors, each at a multiple of 64 bytes
    then      the document: JSON with the state as in a checkpoint's state.json, and the place of each tensor

The commit word is step + 1, or 0 if the area holds no complete snapshot. A writer clears it first and sets it last. The
checksum covers the other words and everything behind page 0 (`pool/kernels/cpu/memory/lines.h`). It finds damage by a
process that wrote at random before it died.

A writer that has filled an area before copies only what has changed since, where it is told the changes. It updates
the checksum by the lines that it copies, while a reader sums up every byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from pool import _native
from pool.checkpoint.state import RunState
from pool.checkpoint.tensor_file import TensorBytes
from pool.crash_points import crash_point
from pool.errors import CheckpointError

PAGE = 4096
LINE = 64  # bytes: tensors begin at a multiple of it
_DIGITS = 40  # bytes by which an entry of the document may grow, as its numbers get longer

_WORTH_A_THREAD = 1 << 21  # bytes; for each so many a copy uses one more thread

Area = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.uint64]  # a bit for each row of a table: r % 64 of word r // 64


@dataclass(frozen=True)
class TensorLocation:
    """Name, dtype, shape and position (in bytes) of a tensor in an area of shared memory."""

    name: str
    dtype: str  # dtype name of the safetensors format, e.g. F32
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Snapshot(RunState):
    """A run's state as read from an area of shared memory, and where its tensors lie. The tensors' bytes are not
    part of it."""

    tensors: Mapping[str, tuple[TensorLocation, ...]]  # by kind: weights, optimizer, average


_SNAPSHOT = TypeAdapter(Snapshot)


def area_nbytes(tensors: Sequence[int], document: int) -> int:
    """Returns the bytes to reserve for an area that holds a snapshot.

    `tensors`: bytes of each tensor. `document`: bytes of the JSON document, approximately.
    """
    return PAGE + sum(map(_aligned, tensors)) + _aligned(document + (_DIGITS + 32) * len(tensors) + PAGE)


class SnapshotWriter:
    """Writes snapshots into one area of shared memory, each over the previous one."""

    def __init__(self, area: Area, threads: int = 1) -> None:
        self._area = area
        self._threads = threads
        self._places: dict[str, list[TensorLocation]] | None = (
            None  # tensors of the snapshot in the area; None: not complete
        )
        self._sums: dict[TensorLocation, int] = {}

    @property
    def tensors_sum(self) -> int:
        """Returns the checksum, as an int64, of all tensors in the newest snapshot.

        Machines that hold the same tensors get the same sum, so that they can compare.
        """
        return _signed(sum(self._sums.values()))

    def write(
        self,
        state: RunState,
        tensors: Mapping[str, Sequence[TensorBytes]],
        changed: Mapping[str, Mapping[str, Rows]] | None = None,
    ) -> Snapshot:
        """Copies a state and its tensors into the area, as a complete snapshot. Returns the state as a reader gets it.

        `tensors`: by kind (weights, optimizer, average). `changed`: by kind and name of a table, a bit for each row
        that may differ from the previous snapshot of this writer. Tensors without such bits are copied whole. Raises
        CheckpointError if the state is too large for the area or is not plain data. The area holds no complete
        snapshot then.
        """
        area = self._area
        head = area[: 4 * 8].view(np.int64)
        crash_point("coordinator.snapshot_begun")
        head[0] = 0
        crash_point("coordinator.snapshot_withdrawn")
        before, self._places = self._places, None
        # An optimizer that was restored may keep its state in another order than one that was not.
        tensors = {kind: sorted(entries, key=lambda entry: entry.name) for kind, entries in tensors.items()}
        places, begin = _placed(tensors)
        document = _document(state, places)
        end = begin + len(document)
        if end > area.size:
            raise CheckpointError(
                f"the state of weights and optimizer takes {end} bytes, and {area.size} were reserved for it: "
                "it has grown since the first step of the optimizer"
            )
        if before != places:
            self._sums, changed = {}, None
        for kind, placed in places.items():
            for place, tensor in zip(placed, tensors[kind], strict=True):
                self._copy(place, tensor, (changed or {}).get(kind, {}).get(place.name))
                crash_point("coordinator.snapshot_tensor_copied")
        area[begin:end] = np.frombuffer(document, np.uint8)
        head[1:3] = begin, end
        tables = sum(self._sums.values())
        head[3] = _signed(tables + _sum(area[begin:end], begin) + _sum_of_words(state.step + 1, begin, end))
        crash_point("coordinator.snapshot_copied")
        head[0] = state.step + 1
        self._places = places
        crash_point("coordinator.snapshot_committed")
        return _parsed(document)  # a copy, because the optimizer may go on changing `state`

    def _copy(self, place: TensorLocation, tensor: TensorBytes, changed: Rows | None) -> None:
        """Copies a tensor, or its changed rows, to its place in the area, and updates its sum."""
        out = self._area[place.offset : place.offset + _aligned(place.nbytes)]
        data = np.frombuffer(tensor.data, np.uint8)
        line, threads = place.offset // LINE, min(self._threads, 1 + place.nbytes // _WORTH_A_THREAD)
        if changed is None:
            self._sums[place] = _native.copy_lines(out, data, first_line=line, threads=threads)
        else:
            row = place.nbytes // place.shape[0]
            difference = _native.copy_lines(
                out, data, first_line=line, changed=changed, row_nbytes=row, threads=threads
            )
            self._sums[place] += difference


def read_snapshot(area: Area) -> Snapshot | None:
    """Reads a snapshot from an area and verifies its checksum. Returns None if the area holds no complete snapshot."""
    commit, begin, end, total = (int(word) for word in area[: 4 * 8].view(np.int64))
    if commit == 0 or not PAGE <= begin <= end <= area.size or _total(area, commit, begin, end) != total:
        return None
    return _parsed(area[begin:end].tobytes())


def committed_step(area: Area) -> int | None:
    """Returns the step of the snapshot in an area, by its commit word; None if there is none.

    The checksum is not verified. Only `read_snapshot` does that.
    """
    commit = int(area[:8].view(np.int64)[0])
    return commit - 1 if commit else None


def _total(area: Area, commit: int, begin: int, end: int) -> int:
    return _signed(_sum(area[PAGE:end], PAGE) + _sum_of_words(commit, begin, end))


def _sum(part: Area, offset: int) -> int:
    """Returns the checksum of bytes that begin at `offset` of an area, a multiple of LINE."""
    return _native.sum_of_lines(part, first_line=offset // LINE)


def _sum_of_words(*words: int) -> int:
    return _sum(np.array(words, np.int64).view(np.uint8), 0)


def _signed(total: int) -> int:
    """Wraps a sum around to the range of an int64."""
    return ((total + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _placed(tensors: Mapping[str, Sequence[TensorBytes]]) -> tuple[dict[str, list[TensorLocation]], int]:
    """Assigns an offset in the area to each tensor. Returns them by kind, and the offset of the document behind
    them."""
    end = PAGE
    places: dict[str, list[TensorLocation]] = {}
    for kind, entries in tensors.items():
        places[kind] = []
        for entry in entries:
            places[kind].append(TensorLocation(entry.name, entry.dtype, entry.shape, end, entry.data.nbytes))
            end = _aligned(end + entry.data.nbytes)
    return places, end


def _parsed(document: bytes) -> Snapshot:
    return _SNAPSHOT.validate_python(json.loads(document))


def _document(state: RunState, places: Mapping[str, Sequence[TensorLocation]]) -> bytes:
    """Encodes a state and the places of its tensors as JSON. Raises CheckpointError if the state is not plain data."""
    document = {
        "step": state.step,
        "cursor": asdict(state.cursor),
        "optimizer": state.optimizer.plain(),
        "tensors": {kind: [asdict(place) for place in entries] for kind, entries in places.items()},
        "validations": asdict(state.validations),
        "members": [asdict(member) for member in state.members],
        "averaged": state.averaged,
    }
    try:
        return json.dumps(document).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"optimizer or schedule keep what is no plain data: {error}") from None


def _aligned(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE

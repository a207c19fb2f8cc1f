"""The two areas of shared memory into which the run's state is copied between steps.

A successor of a dead coordinator continues from the newest complete copy (I9). Checkpoints are written from one. An
area that is being written to disk is not overwritten until that has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from pool.checkpoint import snapshot
from pool.checkpoint.snapshot import Area, Snapshot, TensorLocation
from pool.checkpoint.state import RunState, fields_of
from pool.checkpoint.store import DTYPES, Checkpoint, tensor_bytes
from pool.coordinator.update.changed_rows import Changes
from pool.errors import CheckpointError
from pool.protocol.messages import StateSum
from pool.run_folder.strict_json import value_at

WEIGHTS, OPTIMIZER, AVERAGE = "weights", "optimizer", "average"


class Snapshots:
    """Copies the run's state into one of two areas of memory, in turn."""

    def __init__(
        self, areas: Sequence[Area], newest: int | None = None, *, changes: Changes | None = None, threads: int = 1
    ) -> None:
        """Makes copies of the state in two `areas` of shared memory. `newest`: the index of the area with a
        predecessor's state, which must not be overwritten first. `changes`: records which rows of tables have changed,
        so that only these are copied; None: everything is copied."""
        self._areas = areas
        self._writers = [snapshot.SnapshotWriter(area, threads) for area in areas]
        self._changes = changes or Changes({}, len(areas))
        self._newest = newest or 0
        self.summed: StateSum | None = None  # a checksum of the newest copy
        self._held: int | None = None  # the area that is being written to disk

    def load(self, index: int, like: Checkpoint) -> Checkpoint:
        """Loads the state that the coordinator before this one has left in an area of shared memory. Config and
        fingerprint are taken from `like`. Optimizer tensors are copies. Raises CheckpointError if the area is
        damaged."""
        saved = snapshot.read_snapshot(self._areas[index])
        if saved is None:
            raise CheckpointError(f"the snapshot in area {index} was whole and is not any more")
        state = self._checkpoint(saved, self._areas[index], like)
        return replace(
            state,
            optimizer_tensors={name: tensor.clone() for name, tensor in state.optimizer_tensors.items()},
        )

    def take(self, state: Checkpoint) -> Checkpoint:
        """Copies the state into the area that is not held, or the one with the older copy, and returns the copy. The
        next `take` but one overwrites it. After `hold`, none does before `release`.

        Raises CheckpointError if the optimizer's state has outgrown the area or is no plain data.
        """
        index = 1 - (self._newest if self._held is None else self._held)
        tensors = {WEIGHTS: tensor_bytes(state.weights), OPTIMIZER: tensor_bytes(state.optimizer_tensors)}
        changed = {kind: self._changes.changed_since(index, entries) for kind, entries in tensors.items()}
        tensors[AVERAGE] = tensor_bytes(state.average)  # copied whole: any row of an average may have changed
        try:
            written = self._writers[index].write(state, tensors, changed)
        except CheckpointError as error:
            raise CheckpointError(f"optimizer.name: {value_at(state.config, 'optimizer.name')}: {error}") from None
        self._changes.mark_copied(index)
        self._newest = index
        self.summed = StateSum(state.step, self._writers[index].tensors_sum)
        return self._checkpoint(written, self._areas[index], state)

    def hold(self) -> None:
        """Keeps the newest copy of the state from being overwritten, while it is written to disk."""
        self._held = self._newest

    def release(self) -> None:
        """Allows the copy that `hold` has protected to be overwritten."""
        self._held = None

    def _checkpoint(self, saved: Snapshot, area: Area, like: Checkpoint) -> Checkpoint:
        """Returns the state in an area of shared memory as a checkpoint, whose tensors are views of the area. Config
        and fingerprint are taken from `like`."""
        return replace(
            like,
            **fields_of(RunState, saved),
            weights=_tensors(area, saved.tensors, WEIGHTS),
            optimizer_tensors=_tensors(area, saved.tensors, OPTIMIZER),
            average=_tensors(area, saved.tensors, AVERAGE),
        )


_TORCH = {name: dtype for dtype, name in DTYPES.items()}


def _tensors(area: Area, places: Mapping[str, Sequence[TensorLocation]], kind: str) -> dict[str, torch.Tensor]:
    """Returns the tensors of one kind in an area of shared memory by name, as views. `kind`: weights, optimizer or
    average."""
    whole = torch.from_numpy(area)
    return {
        place.name: whole[place.offset : place.offset + place.nbytes].view(_TORCH[place.dtype]).view(place.shape)
        for place in places[kind]
    }

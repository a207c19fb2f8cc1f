"""Turns gradients into the next version of the weights: folds, clips, steps the optimizer, publishes.

The only writer of weights (I3). Version t lies in half t mod 2 of the weights' memory; step t reads that half
and writes the other one, bucket by bucket, as the books say. Where the optimizer can add up the gradients itself, and
nothing has to be done with the sum, that is one pass over memory.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from pool.buckets.plan import Plan
from pool.buckets.tensors import carried, rows_of, trained, views
from pool.checkpoint.store import Checkpoint
from pool.config import Config
from pool.coordinator.actions import Fold, TakeBuffers, Update
from pool.coordinator.piece import Gradients, Piece, TouchedRows
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.optim.adam import Touched
from pool.optim.buckets import BucketOptimizers
from pool.tasks.task import Task

Slot = npt.NDArray[np.uint8]


class Committer:
    """Owns the model, its optimizer and the sum of the step in progress."""

    def __init__(
        self,
        config: Config,
        task: Task,
        plan: Plan,
        *,
        halves: Sequence[Slot],
        gradient_slots: Mapping[tuple[int, int], Slot],
        touched_rows: TouchedRows,
    ) -> None:
        """`halves`: the two versions' memory; `gradient_slots`: by (worker, slot)."""
        self._config = config
        self._task = task
        self._plan = plan
        self._halves = halves
        self._buffer_sources = {place: views(slot, plan.buffers) for place, slot in gradient_slots.items()}
        self._weights = [views(half, plan.parameters) for half in halves]
        self._buffers = [views(half, plan.buffers) for half in halves]
        torch.manual_seed(config.run.seed)
        self.model = task.build_model()
        self._parameters = [parameter for _, parameter in trained(self.model)]
        self._model_buffers = [tensor for _, tensor in carried(self.model)]
        self.optimizers = BucketOptimizers(plan, self._parameters, config.optimizer, config.schedule)
        self._sums = views(_untouched(plan.nbytes), plan.parameters)
        gradients = {place: views(slot, plan.parameters) for place, slot in gradient_slots.items()}
        self._pieces = [
            [
                Piece(
                    index,
                    parameter,
                    weights=(rows_of(self._weights[0][index], bucket), rows_of(self._weights[1][index], bucket)),
                    total=rows_of(self._sums[index], bucket),
                    gradients={place: rows_of(slot[index], bucket) for place, slot in gradients.items()},
                    table=plan.parameters[index].sparse_field,
                    first_row=0 if bucket.rows is None else bucket.rows[0],
                    touched_rows=touched_rows,
                    touched_only=self.optimizers.touched_only(b),
                )
                for index, parameter in zip(bucket.parameters, members, strict=True)
            ]
            for b, (bucket, members) in enumerate(zip(plan.buckets, self.optimizers.parameters, strict=True))
        ]
        self.version = -1  # of the newest complete weights
        self._buffers_taken = False
        self.gradient_norm = 0.0  # of the newest step, when clip_norm is set
        self.gradient_nbytes = 0  # read of gradient slots, since the beginning

    def initialize(self, start: Mapping[str, torch.Tensor] | None = None) -> None:
        """The weights of a run that begins; `start`: those of another one's checkpoint. Raises CheckpointError."""
        with torch.no_grad():
            self._task.initialize(self.model)
            if start is not None:
                self._take(start)
            self._task.after_step(self.model)

    def restore(self, checkpoint: Checkpoint) -> None:
        """The weights and optimizer state of a run that goes on. Raises CheckpointError."""
        with torch.no_grad():
            self._take(checkpoint.weights)
        self.optimizers.load_state(checkpoint.optimizer, checkpoint.optimizer_plain)

    def _take(self, weights: Mapping[str, torch.Tensor]) -> None:
        tensors = {**dict(trained(self.model)), **dict(carried(self.model))}
        if tensors.keys() != weights.keys():
            different = sorted(tensors.keys() ^ weights.keys())
            raise CheckpointError(f"weights of the checkpoint are not those of the config's model: {different[0]}")
        for name, tensor in tensors.items():
            saved = weights[name]
            if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
                raise CheckpointError(
                    f"{name}: {tuple(saved.shape)} {saved.dtype} in the checkpoint, "
                    f"{tuple(tensor.shape)} {tensor.dtype} in the config's model"
                )
            tensor.copy_(saved)

    def begin(self, step: int) -> None:
        """The model's present weights become version `step`, in its half."""
        for tensors, current in ((self._weights, self._parameters), (self._buffers, self._model_buffers)):
            for place, tensor in zip(tensors[step % 2], current, strict=True):
                place.copy_(tensor.detach())
        for pieces in self._pieces:
            for piece in pieces:
                piece.changed = None
        self._point_to(step)

    def fold(self, action: Fold) -> None:
        """Adds sources to the sum, in their order (I2)."""
        crash_point("coordinator.before_fold")
        scale = self._scale(action) if action.last else 1.0
        for piece in self._pieces[action.bucket]:
            gradients = piece.of(action.sources)
            self.gradient_nbytes += piece.read_nbytes(gradients)
            piece.fold(gradients, first=action.first, scale=scale)

    def steps_in_one_pass(self, action: Update) -> bool:
        """Whether `update` adds up the gradients too; if not, `fold` has to come first."""
        train = self._config.train
        return (
            action.fold is not None
            and action.fold.first
            and train.clip_norm is None
            and train.clip_value is None
            and self.optimizers.folds(action.bucket)
        )

    def update(self, action: Update) -> None:
        """Steps the optimizer on a bucket; with clip_norm, not before the whole gradient is known."""
        if action.batches == 0:
            for piece in self._pieces[action.bucket]:
                piece.seen = 0
                piece.note_rows(piece.of(()), first=True)
        if action.fold is not None and self.steps_in_one_pass(action):
            self._fold_and_step(action.fold)
        elif self._config.train.clip_norm is None:
            self._step_bucket(action.step, action.bucket)

    def take_buffers(self, action: TakeBuffers) -> None:
        """Buffers follow the first batch of the step."""
        self._buffers_taken = action.source is not None
        if action.source is None:
            return
        source = self._buffer_sources[action.source.worker, action.source.slot]
        for place, tensor in zip(self._buffers[(action.step + 1) % 2], source, strict=True):
            place.copy_(tensor)

    def commit(self, step: int) -> None:
        """Completes version step + 1."""
        if not self._buffers_taken:
            for place, old in zip(self._buffers[(step + 1) % 2], self._buffers[step % 2], strict=True):
                place.copy_(old)
        self._buffers_taken = False
        if self._config.train.clip_norm is not None:
            self._clip_norm(self._config.train.clip_norm)
            for bucket in range(len(self._plan.buckets)):
                self._step_bucket(step, bucket)
        crash_point("coordinator.before_commit")
        self._point_to(step + 1)
        changes = [parameter._version for parameter in self._parameters]
        with torch.no_grad():
            self._task.after_step(self.model)
        for pieces in self._pieces:
            for piece in pieces:
                if self._parameters[piece.index]._version != changes[piece.index]:
                    piece.changed = None  # the task may have changed any row
        self.optimizers.end_step(step)
        crash_point("coordinator.after_commit")

    def newest(self) -> Slot:
        """The memory of the newest complete version."""
        return self._halves[self.version % 2]

    def _fold_and_step(self, action: Fold) -> None:
        """In one pass: the sums are written nowhere."""
        crash_point("coordinator.before_fold")
        work = {}
        for piece in self._pieces[action.bucket]:
            gradients = work[piece.index] = piece.of(action.sources)
            self.gradient_nbytes += piece.read_nbytes(gradients)
            piece.note_rows(gradients, first=True)
        self._step_folding(action.step, action.bucket, work, self._scale(action))

    def _step_bucket(self, step: int, bucket: int) -> None:
        """With the sums as they are."""
        pieces = self._pieces[bucket]
        if self._config.train.clip_value is not None:
            for piece in (piece for piece in pieces if piece.seen):
                piece.total.clamp_(-self._config.train.clip_value, self._config.train.clip_value)
        if self.optimizers.folds(bucket):
            sums = {piece.index: ([piece.total] if piece.seen else [], _numbers(piece)) for piece in pieces}
            self._step_folding(step, bucket, sums, 1.0)
            return
        old, new = step % 2, (step + 1) % 2
        for piece in pieces:
            piece.weights[new].copy_(piece.weights[old])
        crash_point("coordinator.weights_copied")
        for piece in pieces:
            piece.parameter.data = piece.weights[new]
            piece.parameter.grad = piece.total if piece.seen else None
        self.optimizers.step(bucket)
        crash_point("coordinator.weights_stepped")
        self._check_places(step, bucket)

    def _step_folding(self, step: int, bucket: int, work: Mapping[int, Gradients], scale: float) -> None:
        """`work`: of each parameter of the bucket, what its optimizer adds up."""
        old, new = step % 2, (step + 1) % 2
        steps = []
        for piece in self._pieces[bucket]:
            gradients, touched = work[piece.index]
            piece.parameter.data = piece.weights[new]
            if piece.by_rows:
                piece.catch_up(old, new)
            elif not gradients:
                piece.weights[new].copy_(piece.weights[old])
            if gradients:
                steps.append((piece.parameter, piece.weights[old], gradients, touched))
        crash_point("coordinator.weights_caught_up")
        self.optimizers.fold_and_step(bucket, steps, scale)
        crash_point("coordinator.weights_folded")
        self._check_places(step, bucket)

    def _check_places(self, step: int, bucket: int) -> None:
        for piece in self._pieces[bucket]:
            old, new = (piece.weights[version % 2].data_ptr() for version in (step, step + 1))
            assert piece.parameter.data_ptr() == new != old, "I3"

    def _scale(self, action: Fold) -> float:
        if self._config.train.reduction == "sum":
            return float(self._config.data.batch_size)
        return 1.0 / action.batches

    def _clip_norm(self, limit: float) -> None:
        """As torch.nn.utils.clip_grad_norm_: the whole gradient is scaled by limit / (norm + 1e-6), never up."""
        seen = {piece.index for pieces in self._pieces for piece in pieces if piece.seen}
        present = [self._sums[index] for index in sorted(seen)]
        if not present:
            return
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(total) for total in present]))
        self.gradient_norm = float(norm)
        factor = limit / (self.gradient_norm + 1e-6)
        if factor < 1.0:
            for total in present:
                total.mul_(factor)

    def _point_to(self, version: int) -> None:
        self.version = version
        for tensors, current in ((self._weights, self._parameters), (self._buffers, self._model_buffers)):
            for place, tensor in zip(tensors[version % 2], current, strict=True):
                tensor.data = place


def _untouched(size: int) -> Slot:
    """Zeros that take memory only where they are written: where the optimizer adds up the gradients, nowhere."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # a wish: not every kernel has them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]


def _numbers(piece: Piece) -> list[Touched] | None:
    """The rows in the sum, as a batch would number them; None if the optimizer writes all rows anyway."""
    return [(piece.rows + piece.first_row).astype(np.uint32)] if piece.by_rows else None

"""The model whose weights the run trains: made or restored, stepped bucket by bucket, one version after the other.

The only writer of weights (I3). Version t lies in half t mod 2 of the weights' memory; step t reads that half
and writes the other one, bucket by bucket, as the books decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from pool.buckets.plan import Plan
from pool.buckets.tensors import carried, trained
from pool.checkpoint.store import Checkpoint
from pool.config.tree import Config
from pool.coordinator.books.actions import Fold, TakeBuffers, Update
from pool.coordinator.stepping.choice import choose
from pool.coordinator.stepping.timing import Timing
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.exchange.interface import CoordinatorExchange
from pool.optim.buckets import BucketOptimizers
from pool.tasks.task import Task


class Committer:
    """Owns the model and its optimizer."""

    def __init__(self, config: Config, task: Task, plan: Plan, exchange: CoordinatorExchange, timing: Timing) -> None:
        self._task = task
        self._exchange = exchange
        torch.manual_seed(config.run.seed)
        self.model = task.build_model()
        self._parameters = [parameter for _, parameter in trained(self.model)]
        self._buffers = [tensor for _, tensor in carried(self.model)]
        self.optimizers = BucketOptimizers(plan, self._parameters, config.optimizer, config.schedule)
        self._steppings = choose(config, plan, self.optimizers, exchange, timing)
        self.changes = self._steppings.changes
        self.version = -1  # of the newest complete weights
        self._buffers_taken = False

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
        self.optimizers.load_state(checkpoint.optimizer_tensors, checkpoint.optimizer.plain())

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
        places = [*self._exchange.weights(step), *self._exchange.buffers(step)]
        for place, tensor in zip(places, [*self._parameters, *self._buffers], strict=True):
            place.copy_(tensor.detach())
        for piece in self._steppings.pieces:
            piece.forget()
        self._point_to(step)

    def fold(self, action: Fold) -> None:
        """Adds up a part of a bucket's sum before the rest is there (I2)."""
        self._steppings.buckets[action.bucket].fold(action)

    def update(self, action: Update) -> None:
        """The rest of the sum and the optimizer's step of a bucket."""
        self._steppings.buckets[action.bucket].update(action)

    def take_buffers(self, action: TakeBuffers) -> None:
        """Buffers follow the first batch of the step."""
        self._buffers_taken = action.source is not None
        if action.source is not None:
            self._copy_buffers(self._exchange.buffers_of(action.source), action.step + 1)

    def commit(self, step: int) -> None:
        """Completes version step + 1."""
        if not self._buffers_taken:
            self._copy_buffers(self._exchange.buffers(step), step + 1)
        self._buffers_taken = False
        if self._steppings.clip_norm is not None:
            self._steppings.clip_norm.step(step)
        crash_point("coordinator.before_commit")
        self._point_to(step + 1)
        self._after_step()
        self.optimizers.end_step(step)
        crash_point("coordinator.after_commit")

    def _after_step(self) -> None:
        """The task may change weights: of a parameter that it does change, any row."""
        changes = [parameter._version for parameter in self._parameters]
        with torch.no_grad():
            self._task.after_step(self.model)
        for piece in self._steppings.pieces:
            if self._parameters[piece.index]._version != changes[piece.index]:
                piece.forget()

    def _copy_buffers(self, source: Iterable[torch.Tensor], version: int) -> None:
        for place, tensor in zip(self._exchange.buffers(version), source, strict=True):
            place.copy_(tensor)

    def _point_to(self, version: int) -> None:
        self.version = version
        places = [*self._exchange.weights(version), *self._exchange.buffers(version)]
        for place, tensor in zip(places, [*self._parameters, *self._buffers], strict=True):
            tensor.data = place

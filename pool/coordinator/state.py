"""The state of a run between two steps (I9): how it is made, restored, changed, and given to snapshots and
checkpoints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from loader.exit_codes import EXIT_RESOURCES
from pool.checkpoint import store
from pool.checkpoint.folder import keep_former_best
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.state import FOLDER, MemberState, OptimizerNumbers, describe_data, same_validation
from pool.checkpoint.validations import NONE, Goal, Validations, comparable
from pool.coordinator.models import Models
from pool.coordinator.scheduler.actions import Commit, ReduceRates, SaveValidation
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError
from pool.metrics.medians import format_members
from pool.process.start import CoordinatorStart
from pool.run_folder.strict_json import value_at
from pool.shm.memory import Memory


class State:
    """The state of a run: weights, optimizer state, the position in the data stream, and the results of validations.

    The weights and the optimizer state lie in `Models`. The rest is kept here.
    """

    def __init__(
        self,
        start: CoordinatorStart,
        memory: Memory,
        models: Models,
        snapshots: Snapshots,
        goal: Goal,
        notify: Callable[[str], object],
    ) -> None:
        """Makes the state of a run, without weights until `begin`. `goal`: which number of a validation tells the best
        checkpoint. `notify`: shows the run's user a line."""
        self._start = start
        self._memory = memory
        self._models = models
        self._snapshots = snapshots
        self._goal = goal
        self._cursor = start.cursor
        self._unused = (0,) * len(models.members)
        self._plateaus = (Plateau(),) * len(models.members)
        self._notify = notify

    @property
    def epoch(self) -> int:
        """The epoch of the data in which the next step begins."""
        return self._cursor.epoch

    @property
    def unused(self) -> tuple[int, ...]:
        """For each member (network of an ensemble), how many batches in a row could not be used for it, as of the last
        commit."""
        return self._unused

    @property
    def plateaus(self) -> tuple[Plateau, ...]:
        """For each member, the state of the rule that lowers the learning rate (`schedule.plateau`), as of the last
        validation."""
        return self._plateaus

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rate of the next step for each member."""
        return self._models.learning_rates

    def load(self) -> Validations:
        """Draws the weights of a new run, or loads the state from a snapshot or a checkpoint, and publishes the weights
        to the workers.

        Returns the results of earlier validations that the next ones can be compared with. Raises CheckpointError.
        """
        restored = self._load_restored()
        if restored is None:
            self._initialize()
        else:
            self._restore(restored)
        self._models.publish(self._start.step)
        return NONE if restored is None else self._comparable_validations(restored)

    def _load_restored(self) -> store.Checkpoint | None:
        """Loads the state that the run goes on from; None for a new run."""
        if self._start.snapshot is not None:
            return self._snapshots.load(self._start.snapshot, self.as_checkpoint())
        if self._start.checkpoint is not None:
            return store.load_checkpoint(self._start.checkpoint)
        return None

    def _initialize(self) -> None:
        """Draws the weights of a new run, or copies them from another run's checkpoint."""
        source = self._start.start_from
        self._models.initialize(None if source is None else self._load_start_weights(source))
        self._models.start(self._start.step)
        if source is not None:
            self._snapshots.take(self.as_checkpoint())  # from here on the other run's checkpoint may be deleted

    def _restore(self, restored: store.Checkpoint) -> None:
        """Puts a loaded state into the models and optimizers. If the length of the run has changed, the learning rate
        schedules follow it."""
        step, models = self._start.step, self._models
        models.restore(restored)
        has_new_length = value_at(restored.config, "train.steps") != self._start.config.train.steps
        for member in models.members:
            if restored.optimizer.groups is None:
                member.optimizers.move_schedule_to(step)
            elif has_new_length:
                member.optimizers.follow_length(step)
        self._apply_overrides(step)
        self._unused = tuple(member.unused for member in restored.members) or self._unused
        self._plateaus = (*restored.optimizer.plateaus, *self._plateaus)[: len(models.members)]
        models.start(step)

    def on_commit(self, action: Commit) -> None:
        """Moves the state on after a step: the position in the data stream, the counts of unused batches, and settings
        that the user has changed for the next step."""
        self._apply_overrides(action.step + 1)
        self._cursor = action.next_cursor
        self._unused = action.unused

    def on_validation(self, action: SaveValidation) -> None:
        """Keeps the new state of the rules that lower learning rates (`schedule.plateau`), after a validation."""
        self._plateaus = action.plateaus

    def reduce_rates(self, action: ReduceRates) -> None:
        """Lowers the learning rates of members whose validations have stopped improving, and tells the user. A rate
        that is at its minimum stays. Raises CheckpointError."""
        reduced = defaultdict[str, list[int]](list)
        for m, rule in action.rules.items():
            optimizers = self._models.members[m].optimizers
            before = optimizers.learning_rate
            optimizers.set_rates(rule.reduce)
            if optimizers.learning_rate != before:
                rates = f"from {before:g} to {optimizers.learning_rate:g}"
                reduced[f"{rule.goal.metric} gets no better: the learning rate is reduced {rates}"].append(m)
        for what, members in reduced.items():
            who = f"{format_members(members)}, " if len(self._models.members) > 1 else ""
            self._notify(f"{who}step {action.step}: {what} (schedule.plateau)")

    def as_checkpoint(self) -> store.Checkpoint:
        """Returns the whole state of the run. To be called between two steps only, because its tensors are the live
        ones, which the next step changes."""
        tensors, plain = self._models.optimizer_state()
        return store.Checkpoint(
            step=self._models.version,
            cursor=self._cursor,
            config=self._start.config.model_dump(mode="json"),
            fingerprint=self._start.fingerprint,
            **describe_data(self._start.train_files, self._start.validation_files, self._start.validation_digests),
            goal=self._goal,
            chunk_sums={purpose: words.copy() for purpose, words in self._memory.chunk_checksums().items()},
            weights=self._models.weights(),
            tied={name: first for member in self._models.members for name, first in member.tied.items()},
            transient=[name for member in self._models.members for name in member.transient],
            average=self._models.named_averages(),
            averaged=self._models.num_averaged,
            optimizer=OptimizerNumbers.of(plain, self._plateaus),
            members=tuple(
                MemberState(member.frozen_at, unused)
                for member, unused in zip(self._models.members, self._unused, strict=True)
            ),
            optimizer_tensors=tensors,
            divided=self._models.divided_state(),
        )

    def _load_start_weights(self, checkpoint: Path) -> Mapping[str, torch.Tensor]:
        """Loads the weights that a new run begins with from another run's checkpoint, as `train.start_weights` says:
        its newest ones or their average."""
        averaged = self._start.config.train.start_weights == "averaged"
        return store.load_weights(checkpoint, averaged=averaged).tensors

    def _comparable_validations(self, restored: store.Checkpoint) -> Validations:
        """Returns the results of earlier validations in a restored state. Returns NONE if the validation data or
        settings have changed since, so that new results can't be compared with them.

        In that case the checkpoint that was the best is kept under another name, and the user is told. Raises
        CheckpointError if it can't be kept.
        """
        known, start = restored.validations, self._start
        same_files = same_validation(restored, start.validation_files, start.validation_digests)
        if known == NONE or (same_files and comparable(restored.config, start.config.model_dump(mode="json"))):
            return known
        self._plateaus = (Plateau(),) * len(self._plateaus)
        folder = start.run_dir / FOLDER
        try:
            kept = keep_former_best(folder)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: the former best can't be kept: {error.strerror}", EXIT_RESOURCES
            ) from None
        former = "" if kept is None else f"; the former best is kept: {FOLDER}/{kept}"
        self._notify(f"validations measure something else now than before: the best checkpoint is chosen anew{former}")
        return NONE

    def _apply_overrides(self, step: int) -> None:
        """Applies the settings that the user has changed for step `step` when the run was resumed. Settings of other
        steps are left alone."""
        for override in self._start.overrides:
            if override.step == step:
                self._models.apply_override(override)

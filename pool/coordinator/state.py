"""The state of a run between two steps (I9): made, restored, and given to checkpoints."""

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
from pool.coordinator.scheduler.actions import Commit, ReduceRates, Validated
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError
from pool.metrics.medians import named
from pool.process.start import CoordinatorStart
from pool.run_folder.strict_json import value_at
from pool.shm.memory import Memory


class State:
    """Weights and optimizer are the models's; the place in the stream and what was changed by hand are kept here."""

    def __init__(
        self,
        start: CoordinatorStart,
        memory: Memory,
        models: Models,
        snapshots: Snapshots,
        goal: Goal,
        say: Callable[[str], object],
    ) -> None:
        """`goal`: which number of a validation the run goes by; `say`: to its user."""
        self._start = start
        self._memory = memory
        self._models = models
        self._snapshots = snapshots
        self._goal = goal
        self._cursor = start.cursor
        self._unused = (0,) * len(models.members)
        self._plateaus = (Plateau(),) * len(models.members)
        self._say = say

    @property
    def epoch(self) -> int:
        """The epoch that the next step begins in."""
        return self._cursor.epoch

    @property
    def unused(self) -> tuple[int, ...]:
        """The batches in a row that each member has lost, as the last commit has said it."""
        return self._unused

    @property
    def plateaus(self) -> tuple[Plateau, ...]:
        """The plateaus of the members, as the last validation has made them."""
        return self._plateaus

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rates of the next step, one a member."""
        return self._models.learning_rates

    def begin(self) -> Validations:
        """Makes or loads the weights and publishes them. Returns what is known of validations.

        Raises CheckpointError.
        """
        start, models = self._start, self._models
        restored = None
        if start.snapshot is not None:
            restored = self._snapshots.load(start.snapshot, self.checkpoint())
        elif start.checkpoint is not None:
            restored = store.load(start.checkpoint)
        if restored is not None:
            models.restore(restored)
            other_length = value_at(restored.config, "train.steps") != start.config.train.steps
            for member in models.members:
                if restored.optimizer.groups is None:
                    member.optimizers.move_schedule_to(start.step)
                elif other_length:
                    member.optimizers.follow_length(start.step)
            self._override(start.step)
            self._unused = tuple(member.unused for member in restored.members) or self._unused
            self._plateaus = (*restored.optimizer.plateaus, *self._plateaus)[: len(models.members)]
        else:
            models.initialize(None if start.start_from is None else self._start_weights(start.start_from))
        models.begin(start.step)
        if restored is None and start.start_from is not None:
            self._snapshots.take(self.checkpoint())  # from here on the other run's checkpoint may go
        models.publish(start.step)
        return NONE if restored is None else self._validations(restored)

    def committed(self, action: Commit) -> None:
        """The next step begins elsewhere in the stream, and with what its user has changed."""
        self._override(action.step + 1)
        self._cursor = action.next_cursor
        self._unused = action.unused

    def validated(self, action: Validated) -> None:
        """The newest version is."""
        self._plateaus = action.plateaus

    def reduce_rates(self, action: ReduceRates) -> None:
        """The next steps are made with lower learning rates, unless these are the lowest. Raises CheckpointError."""
        reduced = defaultdict[str, list[int]](list)
        for m, rule in action.rules.items():
            optimizers = self._models.members[m].optimizers
            before = optimizers.learning_rate
            optimizers.set_rates(rule.reduced)
            if optimizers.learning_rate != before:
                rates = f"from {before:g} to {optimizers.learning_rate:g}"
                reduced[f"{rule.goal.metric} gets no better: the learning rate is reduced {rates}"].append(m)
        for what, members in reduced.items():
            who = f"{named(members)}, " if len(self._models.members) > 1 else ""
            self._say(f"{who}step {action.step}: {what} (schedule.plateau)")

    def checkpoint(self) -> store.Checkpoint:
        """All of it; between two steps only. The tensors are those that the next step changes."""
        tensors, plain = self._models.optimizer_state()
        return store.Checkpoint(
            step=self._models.version,
            cursor=self._cursor,
            config=self._start.config.model_dump(mode="json"),
            fingerprint=self._start.fingerprint,
            **describe_data(self._start.train_files, self._start.validation_files, self._start.validation_digests),
            goal=self._goal,
            chunk_sums={purpose: words.copy() for purpose, words in self._memory.sums().items()},
            weights=self._models.weights(),
            tied={name: first for member in self._models.members for name, first in member.tied.items()},
            transient=[name for member in self._models.members for name in member.transient],
            average=self._models.averages(),
            averaged=self._models.averaged,
            optimizer=OptimizerNumbers.of(plain, self._plateaus),
            members=tuple(
                MemberState(member.frozen_at, unused)
                for member, unused in zip(self._models.members, self._unused, strict=True)
            ),
            optimizer_tensors=tensors,
            divided=self._models.divided_state(),
        )

    def _start_weights(self, checkpoint: Path) -> Mapping[str, torch.Tensor]:
        averaged = self._start.config.train.start_weights == "averaged"
        return store.load_weights(checkpoint, averaged=averaged).tensors

    def _validations(self, restored: store.Checkpoint) -> Validations:
        """Returns what is known of the validations, if the next ones can be compared with it. Raises CheckpointError if
        the checkpoint that was the best by others can't be kept."""
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
        self._say(f"validations measure something else now than before: the best checkpoint is chosen anew{former}")
        return NONE

    def _override(self, step: int) -> None:
        """Before step `step`: what the user wants changed there, unless the state has been through it."""
        for override in self._start.overrides:
            if override.step == step:
                self._models.override(override)

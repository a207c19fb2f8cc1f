"""The models whose weights the run trains: made or restored, stepped bucket by bucket, one version after the other.

The only writer of weights (I3). Version t lies in half t mod 2 of the weights' memory; step t reads that half
and writes the other one, bucket by bucket, as the scheduler decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from pool.checkpoint.overrides import Override
from pool.checkpoint.state import MemberState
from pool.checkpoint.store import Checkpoint
from pool.config.tree import Config
from pool.coordinator.trained_member import TrainedMember
from pool.coordinator.update.changed_rows import Changes
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.ensemble.member import Member
from pool.exchange.interface import CoordinatorExchange
from pool.exchange.layout import member_of_bucket, prefix
from pool.exchange.plan import Plan
from pool.kernels.fold import Addend
from pool.optim.joined_state import State, joined_state, states_of


class Models:
    """Owns the members' models and their optimizers. Buckets are numbered through all members."""

    def __init__(
        self,
        configs: Sequence[Config],
        members: Sequence[Member],
        plans: Sequence[Plan],
        exchanges: Sequence[CoordinatorExchange],
        stopwatch: Stopwatch,
    ) -> None:
        """One of each for each member."""
        self._configs = configs
        self._plans = plans
        self._exchanges = exchanges
        of_members = zip(configs, members, plans, exchanges, strict=True)
        self.members = [
            TrainedMember(*each, stopwatch, prefix=prefix(m, len(members))) for m, each in enumerate(of_members)
        ]
        self._first_parameter = [sum(len(plan.parameters) for plan in plans[:m]) for m in range(len(plans))]
        self._member_of = member_of_bucket(plans)
        self.buckets = [bucket for member in self.members for bucket in member.steps.buckets]
        self.changes = Changes.together(member.steps.changes for member in self.members)
        self.version = -1  # of the newest complete weights
        self._averaged = -1  # the newest version that has been offered to the averages
        self._ahead = -1  # the newest version of which `ahead` has been done
        self._stopwatch = stopwatch

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rates of the next step, one a member."""
        return tuple(member.optimizers.learning_rate for member in self.members)

    @property
    def frozen(self) -> tuple[int, ...]:
        """Members that are trained no further."""
        return tuple(m for m, member in enumerate(self.members) if member.frozen_at is not None)

    @property
    def read_nbytes(self) -> int:
        """The bytes of gradients that were read since the beginning."""
        return sum(exchange.read_nbytes for exchange in self._exchanges)

    def initialize(self, start: Mapping[str, torch.Tensor] | None = None) -> None:
        """The weights of a run that begins; `start`: those of another one's checkpoint. Raises CheckpointError."""
        for m, member in enumerate(self.members):
            member.initialize(None if start is None else self._weights_of(m, start))

    def restore(self, checkpoint: Checkpoint) -> None:
        """The weights and optimizer state of a run that goes on. Raises CheckpointError."""
        state = checkpoint.optimizer_tensors, checkpoint.optimizer.plain()
        states = states_of(self._configs, self._plans, state)
        known = checkpoint.members or (MemberState(),) * len(self.members)
        for m, (member, own, steering) in enumerate(zip(self.members, states, known, strict=True)):
            begin = prefix(m, len(self.members))
            averages = {name: tensor for name, tensor in checkpoint.average.items() if name.startswith(begin)}
            weights, average = self._weights_of(m, checkpoint.weights), (checkpoint.averaged, averages)
            member.restore(weights, own, steering.frozen_at, average)

    def begin(self, step: int) -> None:
        """The models' present weights become version `step`, in its half."""
        self.version = self._averaged = step
        self._ahead = -1
        for member in self.members:
            member.begin(step)
            member.show_average(step)
        for exchange in self._exchanges:
            exchange.give_out_average()

    def publish(self, version: int) -> None:
        """It is complete: workers may read it."""
        for exchange in self._exchanges:
            exchange.give_out(version)
        self._exchanges[0].publish(version)

    def settle(self) -> None:
        """Nothing reads gradients any more that were folded."""
        for exchange in self._exchanges:
            exchange.settle()

    def newest(self) -> bytes:
        """The newest version, as it lies in memory."""
        return b"".join(exchange.newest(self.version) for exchange in self._exchanges)

    def folded(self, bucket: int) -> Iterator[tuple[int, int, Addend]]:
        """Yields what is in the sum of a bucket: number of the parameter among all, first row of the piece, node."""
        first = self._first_parameter[self._member_of[bucket]]
        for part in self.buckets[bucket].parts:
            for node in part.folded:
                yield first + part.index, part.memory.first_row, node

    def buffers(self, version: int) -> list[torch.Tensor]:
        """Returns those of all members."""
        return [buffer for exchange in self._exchanges for buffer in exchange.buffers(version)]

    def commit(self, step: int) -> None:
        """Completes version step + 1."""
        for member in self.members:
            member.complete(step)
        crash_point("coordinator.before_commit")
        self.version = step + 1
        for member in self.members:
            member.commit(step)
        crash_point("coordinator.after_commit")

    def average(self) -> None:
        """Adds the newest version to the averages, unless that has been done; before the next step changes anything."""
        if self._averaged == self.version:
            return
        self._averaged = self.version
        if any(member.average is not None for member in self.members):
            with self._stopwatch.averaging(self.version):
                for member in self.members:
                    member.take_average(self.version)

    def ahead(self) -> None:
        """Makes what can be made of the next version while the workers compute with the newest one, unless that has
        been done; before the next step changes anything."""
        if self._ahead == self.version:
            return
        self._ahead = self.version
        with self._stopwatch.ahead(self.version):
            for member in self.members:
                member.ahead(self.version)
            self.changes.settle()

    def show_averages(self) -> None:
        """Publishes the averages, to be measured with the newest version."""
        self.average()
        for member in self.members:
            member.show_average(self.version)
        for exchange in self._exchanges:
            exchange.give_out_average()

    @property
    def averaged(self) -> int:
        """Versions that are in the averages of those members that are trained."""
        return max(0 if member.average is None else member.average.count for member in self.members)

    def averages(self) -> dict[str, torch.Tensor]:
        """The averaged tensors by name, of members that have an average; the next `average` changes them."""
        averages = [member.average.named for member in self.members if member.average is not None]
        return {name: tensor for named in averages for name, tensor in named.items()}

    def override(self, override: Override) -> None:
        """Between two steps, of all members. Raises CheckpointError."""
        for member in self.members:
            member.optimizers.override(override)

    def optimizer_state(self) -> State:
        return joined_state([member.optimizers.state() for member in self.members])

    def divided_state(self) -> dict[str, list[torch.Tensor]]:
        """Returns the part of the state that lies on several devices, as `BucketOptimizers.divided` gives it."""
        return {name: parts for member in self.members for name, parts in member.optimizers.divided.items()}

    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors of all members by name; the next step changes them."""
        return {name: tensor for member in self.members for name, tensor in member.named.items()}

    def _weights_of(self, m: int, weights: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Returns the weights of an ensemble of as many members, by name; or those that each member begins with."""
        own = prefix(m, len(self.members))
        if any(name.startswith(prefix(0, len(self.members))) for name in weights):
            return {name: tensor for name, tensor in weights.items() if name.startswith(own)}
        return {own + name: tensor for name, tensor in weights.items()}

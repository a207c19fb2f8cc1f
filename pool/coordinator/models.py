"""The models that the run trains, one for each member (network of an ensemble): they are made or restored, and stepped
bucket by bucket. A bucket is a group of parameters that the optimizer steps together.

Nothing else in a run writes weights (I3). Memory holds two versions of them: version t, the weights after t steps, lies
in half t mod 2. Step t reads that half and writes the other one, one bucket at a time, as the scheduler decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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
from pool.exchange.layout import list_bucket_members, member_prefix
from pool.exchange.plan import Plan
from pool.kernels.reduction import Addend
from pool.optim.joined_state import State, join_states, split_state


class PartialSum(NamedTuple):
    """The sum of the gradients of some groups of batches, of the part of a parameter that lies in a bucket."""

    parameter: int  # number of the parameter
    first_row: int  # of the part, in its table
    addend: Addend


class Models:
    """Owns all members' models and optimizers. Buckets and parameters are numbered through all members, those of member
    0 first."""

    def __init__(
        self,
        configs: Sequence[Config],
        members: Sequence[Member],
        plans: Sequence[Plan],
        exchanges: Sequence[CoordinatorExchange],
        stopwatch: Stopwatch,
    ) -> None:
        """Creates the trained members from their `configs`, `members`, `plans` and `exchanges`, each a list with one
        entry for each member (network of an ensemble), in the same order."""
        self._configs = configs
        self._plans = plans
        self._exchanges = exchanges
        self.members: list[TrainedMember] = []
        self._first_parameter: list[int] = []  # by member: the number of its first parameter
        num_parameters = 0
        for config, member, plan, exchange in zip(configs, members, plans, exchanges, strict=True):
            prefix = member_prefix(len(self.members), len(members))
            self.members.append(TrainedMember(config, member, plan, exchange, stopwatch, prefix=prefix))
            self._first_parameter.append(num_parameters)
            num_parameters += len(plan.parameters)
        self._member_of = list_bucket_members(plans)
        self.buckets = [bucket for member in self.members for bucket in member.steps.buckets]
        self.changes = Changes.join(member.steps.changes for member in self.members)
        self.version = -1  # the newest complete version of the weights
        self._averaged_version = -1  # the newest version that `update_averages` has added
        self._copied_early = -1  # the newest version that `copy_early` has copied from
        self._stopwatch = stopwatch

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rate of the next step for each member."""
        return tuple(member.optimizers.learning_rate for member in self.members)

    @property
    def frozen(self) -> tuple[int, ...]:
        """The indices of the members (networks of an ensemble) that are not trained any further."""
        return tuple(m for m, member in enumerate(self.members) if member.frozen_at is not None)

    @property
    def read_nbytes(self) -> int:
        """How many bytes of gradients have been read since this process began."""
        return sum(exchange.read_nbytes for exchange in self._exchanges)

    def initialize(self, start: Mapping[str, torch.Tensor] | None = None) -> None:
        """Draws the initial weights of a new run, or copies them from `start`, the weights of another run's checkpoint
        by name. Raises CheckpointError if they don't fit the models."""
        for m, member in enumerate(self.members):
            member.initialize(None if start is None else self._weights_of(m, start))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Loads the weights, averages and optimizer state of a run that is resumed. Raises CheckpointError if they
        don't fit the models."""
        state = checkpoint.optimizer_tensors, checkpoint.optimizer.plain()
        states = split_state(self._configs, self._plans, state)
        member_states = checkpoint.members or (MemberState(),) * len(self.members)
        entries = zip(self.members, states, member_states, strict=True)
        for m, (member, optimizer_state, member_state) in enumerate(entries):
            prefix = member_prefix(m, len(self.members))
            averages = {name: tensor for name, tensor in checkpoint.average.items() if name.startswith(prefix)}
            weights = self._weights_of(m, checkpoint.weights)
            member.restore(weights, optimizer_state, member_state.frozen_at, (checkpoint.averaged, averages))

    def start(self, step: int) -> None:
        """Copies the weights that were drawn or loaded into the half of memory for version `step`, the first one of
        this process."""
        self.version = self._averaged_version = step
        self._copied_early = -1
        for member in self.members:
            member.start(step)
            member.prepare_average(step)
        for exchange in self._exchanges:
            exchange.send_average()

    def publish(self, version: int) -> None:
        """Lets the workers read a version of the weights, which must be complete. Raises what a device has failed
        with."""
        for exchange in self._exchanges:
            exchange.send_version(version)
        self._exchanges[0].publish(version)

    def wait_until_read(self) -> None:
        """Waits until sums that were begun no longer read any gradient slot, so that workers may write the slots again.
        On a device it returns earlier, and the workers' writes wait there. Raises what the device has failed with."""
        for exchange in self._exchanges:
            exchange.wait_until_read()

    def newest_bytes(self) -> bytes:
        """Returns the bytes of the newest version of the weights of all members (networks of an ensemble), as they lie
        in memory."""
        return b"".join(exchange.version_bytes(self.version) for exchange in self._exchanges)

    def partial_sums(self, bucket: int) -> Iterator[PartialSum]:
        """Yields the partial sums of a bucket's gradients in the step in progress."""
        first_parameter = self._first_parameter[self._member_of[bucket]]
        for part in self.buckets[bucket].parts:
            for addend in part.partial_sums:
                yield PartialSum(first_parameter + part.index, part.memory.first_row, addend)

    def buffers(self, version: int) -> list[torch.Tensor]:
        """Returns the buffers (tensors of the models that are not trained) of all members in a version."""
        return [buffer for exchange in self._exchanges for buffer in exchange.buffers(version)]

    def commit(self, step: int) -> None:
        """Completes version step + 1 of all members' weights, and makes it the newest version."""
        for member in self.members:
            member.complete_version(step)
        crash_point("coordinator.before_commit")
        self.version = step + 1
        for member in self.members:
            member.commit(step)
        crash_point("coordinator.after_commit")

    def update_averages(self) -> None:
        """Adds the newest version of the weights to the members' running averages. Does nothing if that has been done.
        To be called before the next step changes anything."""
        if self._averaged_version == self.version:
            return
        self._averaged_version = self.version
        if any(member.average is not None for member in self.members):
            with self._stopwatch.averaging(self.version):
                for member in self.members:
                    member.update_average(self.version)

    def copy_early(self) -> None:
        """Copies to the next version of the weights what can be copied before its gradients are there, while the
        workers compute with the newest one. Does nothing if that has been done. To be called before the next step
        changes anything."""
        if self._copied_early == self.version:
            return
        self._copied_early = self.version
        with self._stopwatch.copying_early(self.version):
            for member in self.members:
                member.copy_early(self.version)
            self.changes.apply_marks()

    def publish_averages(self) -> None:
        """Brings the averaged weights to where workers read them, to be validated together with the newest version."""
        self.update_averages()
        for member in self.members:
            member.prepare_average(self.version)
        for exchange in self._exchanges:
            exchange.send_average()

    @property
    def num_averaged(self) -> int:
        """The number of versions of the weights that have been added to the averages of members that are still
        trained."""
        return max(0 if member.average is None else member.average.count for member in self.members)

    def named_averages(self) -> dict[str, torch.Tensor]:
        """Returns the averaged tensors by name, of the members that have an average. They are the live ones, which the
        next call of `update_averages` changes."""
        averages = [member.average.named_tensors for member in self.members if member.average is not None]
        return {name: tensor for named in averages for name, tensor in named.items()}

    def apply_override(self, override: Override) -> None:
        """Applies settings that the user has changed to the optimizers of all members. To be called between two steps.
        Raises CheckpointError."""
        for member in self.members:
            member.optimizers.override(override)

    def optimizer_state(self) -> State:
        """Returns the optimizer state of all members (networks of an ensemble), joined to that of one optimizer."""
        return join_states([member.optimizers.state() for member in self.members])

    def divided_state(self) -> dict[str, list[torch.Tensor]]:
        """Returns the tensors of optimizer state whose rows lie on several devices. By name, each is the list of its
        parts, in the order of their rows."""
        return {name: parts for member in self.members for name, parts in member.optimizers.divided.items()}

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the tensors of all members by name. They are the live ones, which the next step changes."""
        return {name: tensor for member in self.members for name, tensor in member.named_tensors.items()}

    def _weights_of(self, m: int, weights: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Returns one member's tensors out of a checkpoint's, by name. A checkpoint of a single network serves every
        member: its names then get the member's prefix."""
        num_members = len(self.members)
        prefix, first_prefix = member_prefix(m, num_members), member_prefix(0, num_members)
        has_members = any(name.startswith(first_prefix) for name in weights)
        if has_members:
            return {name: tensor for name, tensor in weights.items() if name.startswith(prefix)}
        return {prefix + name: tensor for name, tensor in weights.items()}

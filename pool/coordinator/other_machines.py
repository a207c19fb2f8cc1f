"""Exchanges results of each step with the coordinators of other machines: reports of the batches, and sums of
gradients, bucket by bucket (a bucket is parameters that are stepped together).

Each coordinator reports what the batches of its share of a step have come to, and sends the sums of its share. All
coordinators of a generation begin together, with the same step. A coordinator keeps what it has sent of a step until
all others have surely received it, which is when it has received their messages of the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import zmq

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.coordinator.models import PartialSum
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.crash_points import crash_point
from pool.errors import ProtocolError, RunError
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.layout import Layout
from pool.machines.rank import MachineRank, format_machines
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import BucketSums, MachineAddress, ShareReport, StateSum, SumHeader

SILENCE_SECONDS = 15.0  # without a connection; the supervisors notice the loss of a machine in less


class OtherMachines:
    """Connects this machine's coordinator to those of all other machines that compute the run."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        rank: MachineRank,
        layout: Layout,
        share: range,
        sums: OtherSums,
    ) -> None:
        """Opens this coordinator's port for the other machines. `rank`: this machine's number and addresses. `share`:
        the indices of the groups of batches of a step that this machine computes. `sums`: keeps the sums that other
        machines send. Raises UnavailableError if the port can't be had."""
        self._generation = rank.generation
        self._machines = {machine for machine in range(rank.num_machines) if machine != rank.machine}
        self.is_first = rank.machine == 0
        self.has_first_batch = 0 in share and bool(layout.plan.buffers)
        me = Peer(MACHINE, rank.machine, rank.generation)
        plan = layout.plan
        nbytes = [*(bucket.nbytes for bucket in plan.buckets), *(buffer.nbytes for buffer in plan.buffers)]
        max_nbytes = max(nbytes, default=0)
        self.hub = MachineHub(context, rank.key, me, rank.host, rank.coordinator_port, max_frame_nbytes=max_nbytes)
        self._unconnected: dict[int, float] = {}  # machines without a connection: since when (monotonic clock)
        self._warned: set[int] = set()  # of these, those that the user was warned of
        self._sums = sums
        self._newest_step = dict.fromkeys(self._machines, -1)  # by machine: the newest step of its messages
        self._end_version = -1  # the version that this machine ends with, once that is announced
        self._finished: set[int] = set()  # other machines whose coordinators have ended
        self._states: dict[StateSum, set[int]] = {}  # checksum of a version -> machines that have computed it
        self._machine = rank.machine
        self.sent_nbytes = 0  # bytes sent to each other machine since this process began

    def connect(self, addresses: Iterable[MachineAddress]) -> None:
        """Connects to the coordinators of the other machines, whose addresses the supervisors exchange."""
        self._finished = set()
        connections: dict[Peer, str] = {}
        for entry in addresses:
            if entry.machine not in self._machines:
                continue
            if entry.finished:
                self._finished.add(entry.machine)
            else:
                connections[Peer(MACHINE, entry.machine, self._generation)] = entry.address
        self.hub.connect(connections)

    def describe_unconnected(self, now: float, timeout: float) -> str:
        """Returns a line that names the coordinators without a connection for more than SILENCE_SECONDS; empty if there
        are none, or if a line has named all of them before. Raises RunError `timeout` seconds after that."""
        addresses = self.hub.unconnected_addresses
        self._unconnected = {machine: self._unconnected.get(machine, now) for machine in addresses}
        self._warned &= addresses.keys()
        silent = {machine for machine, since in self._unconnected.items() if now - since > SILENCE_SECONDS}
        if not silent:
            return ""
        machines = " and ".join(f"machine {machine} at {addresses[machine]}" for machine in sorted(silent))
        line = (
            f"no connection to the coordinator of {machines}: let the port through a firewall there (--port fixes it)"
        )
        if any(now - self._unconnected[machine] > SILENCE_SECONDS + timeout for machine in silent):
            raise RunError(f"{line}; waited for {timeout:g} s (pool.machine_timeout)", EXIT_CRASH_LOOP)
        is_new = not silent <= self._warned
        self._warned |= silent
        return line if is_new else ""

    def reset_unconnected(self) -> None:
        """Forgets since when other machines have no connection. Called while this machine waits for none of them."""
        self._unconnected = {}

    def announce(self, report: ShareReport, buffers: Sequence[torch.Tensor]) -> None:
        """Sends the other machines the report on this machine's share of the batches of a step. `buffers`: the model's
        buffers after the step's first batch, if this machine has computed it; else empty."""
        crash_point("coordinator.before_announce")
        self._add_state_sum(self._machine, report)
        self._send(report.step, report, [_bytes(buffer.clone()) for buffer in buffers])
        crash_point("coordinator.after_announce")

    def send_partial_sum(self, step: int, bucket: int, partial_sums: Iterable[PartialSum]) -> None:
        """Sends the other machines this machine's sum of a bucket's gradients, as partial sums of its parts. Of a table
        only the touched rows are sent.

        For each partial sum the message has a header, and then come frames: the row numbers if it is of a table, and
        the numbers.
        """
        headers: list[SumHeader] = []
        frames: list[memoryview] = []
        for parameter, first_row, addend in partial_sums:
            if addend.touched is None:
                num_rows = -1
                numbers = addend.gradient.clone()
            else:
                num_rows = len(addend.touched)
                numbers = addend.gradient[torch.from_numpy(addend.touched.astype(np.int64) - first_row)]
                row_numbers: Any = np.array(addend.touched, np.uint32).view(np.uint8)
                frames.append(memoryview(row_numbers))
            frames.append(_bytes(numbers))
            headers.append(SumHeader(parameter, first_row, addend.leaf, num_rows))
        crash_point("coordinator.before_send")
        self._send(step, BucketSums(step, bucket, tuple(headers)), frames)
        crash_point("coordinator.after_send")

    def announce_end(self, step: int) -> bool:
        """Announces to the other machines that this one ends with version `step` of the weights. Returns True if all
        have reached that version, or have ended."""
        if self._end_version != step:
            self._end_version = step
            self.hub.broadcast(step, ShareReport(step, ()))
        return all(reached >= step or machine in self._finished for machine, reached in self._newest_step.items())

    def on_commit(self, step: int) -> None:
        """Forgets the messages that were kept for earlier steps, and the sums received up to `step`, which is committed
        here. All machines have sent their sums for it, so they have committed the step before.

        Compares the checksums of the weights that the machines have reported for the beginning of this step. Raises
        RunError if they differ.
        """
        versions = {state: machines for state, machines in self._states.items() if state.step == step}
        if len(versions) > 1:
            groups = " and ".join(sorted(map(format_machines, versions.values())))
            raise RunError(
                f"{groups} have different weights in step {step}: memory, or numerics; no step since is sure"
            )
        self._states = {state: machines for state, machines in self._states.items() if state.step > step}
        self.hub.discard_below(step)
        self._sums.drop_steps_before(step + 1)

    def receive(self, scheduler: StepScheduler) -> Iterator[tuple[Peer, ShareReport | BucketSums]]:
        """Receives the messages of other machines' coordinators about the step that `scheduler` has in progress, and
        the next one. Yields each with its sender, when the sums or buffers that came with it are stored. Messages that
        can't be used are dropped."""
        for peer, message, frames in self.hub.receive():
            if not self._is_from_machine(peer) or not isinstance(message, ShareReport | BucketSums):
                self.hub.drops.add(f"{type(message).__name__} of {peer} in generation {peer.incarnation}")
                continue
            if not scheduler.step <= message.step <= scheduler.step + 1:  # committed, or too far ahead to be true
                continue
            self._newest_step[peer.index] = max(self._newest_step[peer.index], message.step)
            try:
                self._store(peer.index, message, frames)
            except ProtocolError as error:
                self.hub.drops.add(f"{peer}: {error}")
                continue
            if isinstance(message, BucketSums):
                crash_point("coordinator.sums_heard")
            else:
                crash_point("coordinator.report_heard")
                self._add_state_sum(peer.index, message)
            yield peer, message

    def _is_from_machine(self, peer: Peer) -> bool:
        """Returns True if a sender is another machine's coordinator of this generation."""
        return peer.role == MACHINE and peer.index in self._machines and peer.incarnation == self._generation

    def _store(self, machine: int, message: ShareReport | BucketSums, frames: Sequence[memoryview]) -> None:
        """Stores the sums or buffers that another machine has sent with a message. Raises ProtocolError if they don't
        fit the plan."""
        if isinstance(message, BucketSums):
            self._sums.store(machine, message, frames)
        elif frames:
            self._sums.store_buffers(machine, message.step, frames)

    def _add_state_sum(self, machine: int, report: ShareReport) -> None:
        """Keeps the checksum of the weights in a machine's report, to be compared with those of the other machines.
        Reports of versions that were not saved have none."""
        if report.state is not None:
            self._states.setdefault(report.state, set()).add(machine)

    def _send(self, step: int, message: ShareReport | BucketSums, frames: Sequence[memoryview]) -> None:
        """Sends the other machines a message about a step, and keeps it to be sent again after a lost connection."""
        self.sent_nbytes += sum(frame.nbytes for frame in frames)
        self.hub.broadcast(step, message, frames)


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Returns a view of a tensor's bytes."""
    array: Any = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    return memoryview(array)

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
from pool.coordinator.scheduler.actions import Action
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.crash_points import crash_point
from pool.errors import ProtocolError, RunError
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.layout import Layout
from pool.kernels.reduction import Addend
from pool.machines.place import MachinePlace, named
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import BucketSums, MachineAddress, Saves, ShareReport, StateSum, SumHeader

SILENCE = 15.0  # seconds without a connection; the supervisors notice the loss of a machine in less


class OtherMachines:
    """Connects this machine's coordinator to those of all other machines that compute the run."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: MachinePlace,
        layout: Layout,
        share: range,
        sums: OtherSums,
    ) -> None:
        """Opens this coordinator's port for the other machines. `place`: this machine's number and addresses. `share`:
        the indices of the groups of batches of a step that this machine computes. `sums`: keeps the sums that other
        machines send. Raises UnavailableError if the port can't be had."""
        self._generation = place.generation
        self._is_other = {machine for machine in range(place.machines) if machine != place.machine}
        self.is_first = place.machine == 0
        self.has_first_batch = 0 in share and bool(layout.plan.buffers)
        me = Peer(MACHINE, place.machine, place.generation)
        most = max((bucket.nbytes for bucket in layout.plan.buckets), default=0)
        most = max(most, *(buffer.nbytes for buffer in layout.plan.buffers), 0)
        self.hub = MachineHub(context, place.key, me, place.host, place.coordinator_port, most_bytes=most)
        self._unconnected: dict[int, float] = {}  # machines without a connection: since when (monotonic clock)
        self._named: set[int] = set()  # of these, those that the user has been told of
        self._sums = sums
        self._at = dict.fromkeys(self._is_other, -1)  # by machine: the newest step of which it has sent something
        self._end = -1  # the version that this machine ends with, once the others were told
        self._finished: set[int] = set()  # other machines whose coordinators have ended
        self._states: dict[StateSum, set[int]] = {}  # checksum of a version -> machines that have this one
        self._machine = place.machine
        self.sent_nbytes = 0  # bytes sent to each other machine since this process began

    def connect(self, addresses: Iterable[MachineAddress]) -> None:
        """Connects to the coordinators of the other machines, whose addresses the supervisors exchange."""
        others = [each for each in addresses if each.machine in self._is_other]
        self._finished = {each.machine for each in others if each.finished}
        reached = [each for each in others if not each.finished]
        self.hub.connect({Peer(MACHINE, each.machine, self._generation): each.address for each in reached})

    def name_unconnected(self, now: float, timeout: float) -> str:
        """Returns a line that names the coordinators without a connection for more than SILENCE seconds; empty if a
        line has named all of them before. Raises RunError `timeout` seconds after that."""
        addresses = self.hub.unconnected
        self._unconnected = {machine: self._unconnected.get(machine, now) for machine in addresses}
        self._named &= addresses.keys()
        silent = {machine for machine, since in self._unconnected.items() if now - since > SILENCE}
        if not silent:
            return ""
        where = " and ".join(f"machine {machine} at {addresses[machine]}" for machine in sorted(silent))
        line = f"no connection to the coordinator of {where}: let the port through a firewall there (--port fixes it)"
        if any(now - self._unconnected[machine] > SILENCE + timeout for machine in silent):
            raise RunError(f"{line}; waited for {timeout:g} s (pool.machine_timeout)", EXIT_CRASH_LOOP)
        is_new = not silent <= self._named
        self._named |= silent
        return line if is_new else ""

    def forget_unconnected(self) -> None:
        """Forgets since when other machines have no connection. Called while this machine waits for none of them."""
        self._unconnected = {}

    def announce(self, report: ShareReport, buffers: Sequence[torch.Tensor]) -> None:
        """Sends the other machines the report on this machine's share of the batches of a step. `buffers`: the model's
        buffers after the step's first batch, if this machine has computed it; else empty."""
        crash_point("coordinator.before_announce")
        self._note_state(self._machine, report)
        self._keep(report.step, report, [_bytes(buffer.clone()) for buffer in buffers])
        crash_point("coordinator.after_announce")

    def send(self, step: int, bucket: int, nodes: Iterable[tuple[int, int, Addend]]) -> None:
        """Sends the others this machine's sum of a bucket's gradients. `nodes`: partial sums, each with the number of
        its parameter and the first table row of the part. Of a table only the touched rows are sent."""
        headers: list[SumHeader] = []
        frames: list[memoryview] = []
        for parameter, first_row, node in nodes:
            rows = -1
            if node.touched is None:
                numbers = node.gradient.clone()
            else:
                rows = len(node.touched)
                numbers = node.gradient[torch.from_numpy(node.touched.astype(np.int64) - first_row)]
                listed: Any = np.array(node.touched, np.uint32).view(np.uint8)
                frames.append(memoryview(listed))
            frames.append(_bytes(numbers))
            headers.append(SumHeader(parameter, first_row, node.leaf, rows))
        crash_point("coordinator.before_send")
        self._keep(step, BucketSums(step, bucket, tuple(headers)), frames)
        crash_point("coordinator.after_send")

    def all_end(self, step: int) -> bool:
        """Tells the other machines that this one ends with version `step` of the weights. Returns True if all have made
        that version, or have ended."""
        if self._end != step:
            self._end = step
            self.hub.keep(step, ShareReport(step, ()))
        return all(reached >= step or machine in self._finished for machine, reached in self._at.items())

    def committed(self, step: int) -> None:
        """Notes that a step is committed here, for which all machines have sent their sums: so all have committed the
        step before. Forgets the messages that were kept for earlier steps, and the sums received up to this one.

        Compares the checksums of the weights that the machines have reported for the beginning of this step. Raises
        RunError if they differ.
        """
        versions = {state: machines for state, machines in self._states.items() if state.step == step}
        if len(versions) > 1:
            groups = " and ".join(sorted(map(named, versions.values())))
            raise RunError(
                f"{groups} have different weights in step {step}: memory, or numerics; no step since is sure"
            )
        self._states = {state: machines for state, machines in self._states.items() if state.step > step}
        self.hub.forget(step)
        self._sums.drop_steps_before(step + 1)

    def receive(self, scheduler: StepScheduler) -> Iterator[tuple[list[Action], tuple[int, Saves] | None]]:
        """Receives the messages of other machines' coordinators. Yields for each the actions that the scheduler takes,
        and a second value. This is None, or if the first machine has decided what all save of a version, that version
        and the decision."""
        for peer, message, frames in self.hub.receive():
            if (
                peer.role != MACHINE
                or peer.index not in self._is_other
                or peer.incarnation != self._generation
                or not isinstance(message, ShareReport | BucketSums)
            ):
                self.hub.drops.add(f"{type(message).__name__} of {peer} in generation {peer.incarnation}")
                continue
            if not scheduler.step <= message.step <= scheduler.step + 1:  # committed, or too far ahead to be true
                continue
            self._at[peer.index] = max(self._at[peer.index], message.step)
            try:
                if isinstance(message, BucketSums):
                    self._sums.store(peer.index, message, frames)
                    crash_point("coordinator.sums_heard")
                    yield scheduler.on_partial_sum(peer.index, message.step, message.bucket), None
                    continue
                if frames:
                    self._sums.store_buffers(peer.index, message.step, frames)
            except ProtocolError as error:
                self.hub.drops.add(f"{peer}: {error}")
                continue
            crash_point("coordinator.report_heard")
            self._note_state(peer.index, message)
            decided = (message.step + 1, message.saves) if peer.index == 0 else None
            yield scheduler.on_share_report(peer.index, message), decided

    def _note_state(self, machine: int, report: ShareReport) -> None:
        """Notes the checksum of the weights in another machine's report, or this machine's, to be compared. Reports of
        versions that were not saved have none."""
        if report.state is not None:
            self._states.setdefault(report.state, set()).add(machine)

    def _keep(self, step: int, message: ShareReport | BucketSums, frames: Sequence[memoryview]) -> None:
        """Sends the other machines a message about a step, and keeps it to be sent again after a lost connection."""
        self.sent_nbytes += sum(frame.nbytes for frame in frames)
        self.hub.keep(step, message, frames)


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Returns a view of a tensor's bytes."""
    array: Any = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    return memoryview(array)

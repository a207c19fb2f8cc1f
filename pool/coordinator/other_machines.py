"""A coordinator and those of other machines: of each step each tells what its share of the batches has come to, and
sends its sums, bucket by bucket.

All coordinators of a generation begin together, with the same step. What one has said of a step it keeps until all
have surely heard it: until it has heard of the step after.
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
from pool.kernels.fold import Addend
from pool.machines.place import MachinePlace, named
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import BucketSums, MachineAddress, Saves, ShareReport, StateSum, SumPlace

SILENCE = 15.0  # seconds without a connection: longer than it takes the supervisors to see that a machine is lost


class OtherMachines:
    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: MachinePlace,
        layout: Layout,
        share: range,
        sums: OtherSums,
    ) -> None:
        """`share`: the places of this machine's groups; `sums`: takes what the others send. Raises ResourceError."""
        self._generation = place.generation
        self._is_other = {machine for machine in range(place.machines) if machine != place.machine}
        self.is_first = place.machine == 0
        self.has_first_batch = 0 in share and bool(layout.plan.buffers)
        me = Peer(MACHINE, place.machine, place.generation)
        most = max((bucket.nbytes for bucket in layout.plan.buckets), default=0)
        most = max(most, *(buffer.nbytes for buffer in layout.plan.buffers), 0)
        self.hub = MachineHub(context, place.key, me, place.host, place.coordinator_port, most_bytes=most)
        self._unconnected: dict[int, float] = {}  # other coordinators that can't be sent to: since when
        self._named: set[int] = set()  # of these, those that `name_unconnected` has named
        self._sums = sums
        self._at = dict.fromkeys(self._is_other, -1)  # the newest step that each has said something of
        self._end = -1
        self._finished: set[int] = set()  # others that have ended
        self._states: dict[StateSum, set[int]] = {}  # machines that have said it of a version
        self._machine = place.machine
        self.sent_nbytes = 0  # to each of the others, since the beginning

    def connect(self, addresses: Iterable[MachineAddress]) -> None:
        """Takes what is known of all coordinators of the generation."""
        others = [each for each in addresses if each.machine in self._is_other]
        self._finished = {each.machine for each in others if each.finished}
        reached = [each for each in others if not each.finished]
        self.hub.connect({Peer(MACHINE, each.machine, self._generation): each.address for each in reached})

    def name_unconnected(self, now: float, timeout: float) -> str:
        """Returns a line that names the coordinators that can't be sent to for SILENCE, once; empty: there are no more
        than before. Raises RunError after `timeout` seconds of that."""
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
        """Forgets since when coordinators can't be sent to: this machine waits for none."""
        self._unconnected = {}

    def announce(self, report: ShareReport, buffers: Sequence[torch.Tensor]) -> None:
        """Tells what the share has come to; `buffers`: after the step's first batch, if that is of the share."""
        crash_point("coordinator.before_announce")
        self._note_state(self._machine, report)
        self._keep(report.step, report, [_bytes(buffer.clone()) for buffer in buffers])
        crash_point("coordinator.after_announce")

    def send(self, step: int, bucket: int, nodes: Iterable[tuple[int, int, Addend]]) -> None:
        """Sends what the share adds to a bucket: of each node the number of the parameter, the piece's first row, the
        sum."""
        places: list[SumPlace] = []
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
            places.append(SumPlace(parameter, first_row, node.place, rows))
        crash_point("coordinator.before_send")
        self._keep(step, BucketSums(step, bucket, tuple(places)), frames)
        crash_point("coordinator.after_send")

    def all_end(self, step: int) -> bool:
        """This machine ends with the version `step`, and tells the others: whether all have made it."""
        if self._end != step:
            self._end = step
            self.hub.keep(step, ShareReport(step, ()))
        return all(reached >= step or machine in self._finished for machine, reached in self._at.items())

    def committed(self, step: int) -> None:
        """All machines have sent all of the step: they have committed the one before. Raises RunError if one had other
        weights in it."""
        versions = {state: machines for state, machines in self._states.items() if state.step == step}
        if len(versions) > 1:
            groups = " and ".join(sorted(map(named, versions.values())))
            raise RunError(
                f"{groups} have different weights in step {step}: memory, or numerics; no step since is sure"
            )
        self._states = {state: machines for state, machines in self._states.items() if state.step > step}
        self.hub.forget(step)
        self._sums.forget(step + 1)

    def receive(self, scheduler: StepScheduler) -> Iterator[tuple[list[Action], tuple[int, Saves] | None]]:
        """Yields what follows from all that has come: actions, and what the first machine has decided to save of which
        version."""
        for peer, message, frames in self.hub.receive():
            if (
                peer.role != MACHINE
                or peer.index not in self._is_other
                or peer.incarnation != self._generation
                or not isinstance(message, ShareReport | BucketSums)
            ):
                self.hub.drops.add(f"{type(message).__name__} of {peer} in generation {peer.incarnation}")
                continue
            if not scheduler.step <= message.step <= scheduler.step + 1:  # done, or what nobody can have computed
                continue
            self._at[peer.index] = max(self._at[peer.index], message.step)
            try:
                if isinstance(message, BucketSums):
                    self._sums.put(peer.index, message, frames)
                    crash_point("coordinator.sums_heard")
                    yield scheduler.share_summed(peer.index, message.step, message.bucket), None
                    continue
                if frames:
                    self._sums.put_buffers(peer.index, message.step, frames)
            except ProtocolError as error:
                self.hub.drops.add(f"{peer}: {error}")
                continue
            crash_point("coordinator.report_heard")
            self._note_state(peer.index, message)
            decided = (message.step + 1, message.saves) if peer.index == 0 else None
            yield scheduler.share_computed(peer.index, message), decided

    def _note_state(self, machine: int, report: ShareReport) -> None:
        if report.state is not None:
            self._states.setdefault(report.state, set()).add(machine)

    def _keep(self, step: int, message: ShareReport | BucketSums, frames: Sequence[memoryview]) -> None:
        self.sent_nbytes += sum(frame.nbytes for frame in frames)
        self.hub.keep(step, message, frames)


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Returns its memory."""
    array: Any = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    return memoryview(array)

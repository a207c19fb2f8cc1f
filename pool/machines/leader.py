"""Decides on the first machine which generation of coordinators computes, from the reports of all machines.

A generation is a shared life of all coordinators, one on each machine. They begin together with the same step, and when
one of them is lost all are ended. The next generation begins when every machine has reported and none has a coordinator
any more. It begins with the newest step that all of them can begin with. So there is one way to recover, whatever was
lost (I9).

The state is rebuilt from the machines' repeated reports after a restart of the first machine (I5). This module uses no
sockets and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pool.protocol.messages import CheckpointLocation, MachineAddress, MachineOrders, MachineReport

SILENCE_TIMEOUT = 10.0  # seconds of silence after which a machine counts as lost, and its generation ends


@dataclass
class _ReceivedReport:
    """Holds the newest report of a machine, and when it was received."""

    report: MachineReport
    received_at: float

    def age(self, now: float) -> float:
        """Returns the seconds since the report was received."""
        return now - self.received_at


class Leader:
    """Keeps the state of a run on several machines and answers each machine's report with orders.

    Times are seconds of one monotonic clock.
    """

    def __init__(self, num_machines: int) -> None:
        self._machines = range(num_machines)
        self._received: dict[int, _ReceivedReport] = {}  # newest report of each machine
        self._lives: dict[int, str] = {}  # id of each machine's supervisor when the generation began
        self._rivals: dict[tuple[int, str], float] = {}  # second supervisors with a machine's index: since when
        self._generation = 0
        self._step = 0
        self._broken = ""  # why the generation must end; empty: it computes
        self._ended = ""  # why the run is over; empty: it continues
        self._finished = False
        self.refused: dict[int, str] = {}  # reason by machine that can't take part
        self._copies: dict[int, CheckpointLocation] = {}  # checkpoint to copy before all can begin, by machine
        self._unconnected: dict[int, float] = {}  # machines to which there is no connection: since when

    def receive_report(self, machine: int, report: MachineReport, now: float) -> None:
        """Stores a machine's report, unless a second supervisor with the index of that machine has sent it."""
        if machine not in self._machines or self._is_rival(machine, report, now):
            return
        self._received[machine] = _ReceivedReport(report, now)
        newest = max(report.generation, report.lost)
        if newest > self._generation:  # a generation of this supervisor's predecessor
            self._generation = newest
            self._broken = "machine 0 has begun anew"
        if report.ended and not self._ended:
            self._ended = f"machine {machine}: {report.ended}"

    def discount_pause(self, seconds: float) -> None:
        """Shifts all times by the length of a pause of this process, in which no report could be received."""
        for received in self._received.values():
            received.received_at += seconds
        self._unconnected = {machine: since + seconds for machine, since in self._unconnected.items()}

    def unreachable_machines(self, now: float) -> tuple[int, ...]:
        """Returns the machines whose reports arrive, but to which there was no connection to send for SILENCE_TIMEOUT
        seconds."""
        return tuple(
            machine
            for machine, since in sorted(self._unconnected.items())
            if now - since > SILENCE_TIMEOUT and self._has_reported_lately(machine, now)
        )

    def update(self, now: float, unconnected: Collection[int] = ()) -> None:
        """Updates the state from the reports: refuses machines, ends a generation that is broken, starts the next one.

        `unconnected`: machines to which there is no connection to send now.
        """
        self._unconnected = {machine: self._unconnected.get(machine, now) for machine in unconnected}
        self._refuse_different_machines()
        if self._ended or self._finished:
            return
        if self._generation and not self._broken:
            self._broken = self._find_break_reason(now)
        self._finished = self._all_reports(lambda report: report.finished and report.lost == self._generation)
        self._copies = {}
        is_computing = self._generation and not self._broken
        if not is_computing and not self._finished:
            self._start_generation()

    def orders_for(self, machine: int, report: MachineReport, now: float) -> MachineOrders:
        """Returns the orders for a machine that has sent `report`."""
        if machine not in self._machines:
            return MachineOrders(report.life, refused=f"the run has machines 0 to {self._machines[-1]} (--machines)")
        rival_since = self._rivals.get((machine, report.life))
        if rival_since is not None:
            return self._orders_for_rival(machine, report, rival_since)
        if machine in self.refused:
            return MachineOrders(report.life, refused=self.refused[machine])
        return MachineOrders(
            report.life,
            self._generation,
            self._step,
            self._broken,
            () if self._broken else self._coordinators,
            ended=self._ended,
            finished=self._finished,
            missing=self._missing_machines(now),
            lacks=self._copies.get(machine),
        )

    def _orders_for_rival(self, machine: int, report: MachineReport, since: float) -> MachineOrders:
        """Refuses a second supervisor with a machine's index once the first one has reported again."""
        first = self._received.get(machine)
        if first is None or first.received_at <= since:  # None: the first one was refused
            return MachineOrders(report.life)
        refused = f"there is another machine {machine} (--machine), at {first.report.address}"
        return MachineOrders(report.life, refused=refused)

    def _refuse_different_machines(self) -> None:
        """Refuses machines whose facts differ from the first machine's, and drops their reports. The generation ends
        if such a machine takes part in it."""
        for machine, received in list(self._received.items()):
            self.refused.pop(machine, None)
            reason = self._find_different_fact(machine, received.report)
            if not reason:
                continue
            del self._received[machine]
            self.refused[machine] = reason
            if self._generation and not self._broken:
                self._broken = f"machine {machine} can't take part: {reason}"

    def _find_different_fact(self, machine: int, report: MachineReport) -> str:
        """Describes the first fact in which a machine differs from the first machine. Empty if there is none."""
        first = self._received.get(0)
        if first is None or machine == 0:
            return ""
        expected = {fact.name: fact.value for fact in first.report.facts}
        for fact in report.facts:
            if expected.get(fact.name, fact.value) != fact.value:
                return f"{fact.name}: {fact.value} on machine {machine}, {expected[fact.name]} on machine 0"
        return ""

    def _find_break_reason(self, now: float) -> str:
        """Returns the reason why the generation can't go on, or an empty string if it can."""
        for machine, received in sorted(self._received.items()):
            report = received.report
            if report.life != self._lives[machine]:
                return f"machine {machine} has begun anew"
            if report.finished and report.lost == self._generation:
                continue
            if report.lost >= self._generation:
                return f"the coordinator of machine {machine} is dead"
            if report.generation == self._generation and received.age(now) > SILENCE_TIMEOUT:
                return f"machine {machine} is not heard for {SILENCE_TIMEOUT:g} s"
        return ""

    def _start_generation(self) -> None:
        """Starts the next generation if all machines are ready. If they have no common step, orders copies of a
        checkpoint."""
        if self._unconnected or not self._all_reports(lambda report: report.lost == self._generation and report.steps):
            return
        reports = {machine: received.report for machine, received in self._received.items()}
        common = set.intersection(*(set(report.steps) for report in reports.values()))
        if not common:
            self._order_copies(reports)
            return
        self._generation += 1
        self._step = max(common)
        self._broken = ""
        self._lives = {machine: report.life for machine, report in reports.items()}

    def _order_copies(self, reports: Mapping[int, MachineReport]) -> None:
        """Orders machines that lack the newest checkpoint to copy it, when there is no step that all can begin with.

        Every machine is connected to the first one only, so the first machine copies the checkpoint before any other
        does. Ends the run if a machine that lacks the checkpoint may not copy.
        """
        machines = sorted(reports)
        newest = max((step for report in reports.values() for step in report.saved), default=0)
        sources = [machine for machine in machines if newest in reports[machine].saved]
        targets = [machine for machine in machines if newest not in reports[machine].steps]
        if sources and sources[0] != 0:
            targets = [0]
        if sources and all(reports[machine].copies for machine in targets):
            self._copies = {machine: CheckpointLocation(newest, sources[0]) for machine in targets}
            return
        steps = "; ".join(
            f"machine {machine} has {', '.join(map(str, sorted(reports[machine].steps)))}" for machine in machines
        )
        self._ended = (
            f"no step that all machines can begin with: {steps}; those that are started with --resume copy the "
            "newest checkpoint"
        )

    def _all_reports(self, condition: Callable[[MachineReport], object]) -> bool:
        """Tells whether all machines have reported and the newest report of each fulfils a condition."""
        has_all = len(self._received) == len(self._machines)
        return has_all and all(condition(received.report) for received in self._received.values())

    @property
    def _coordinators(self) -> tuple[MachineAddress, ...]:
        """Returns the addresses of the generation's coordinators that are reported so far, and the machines that have
        finished."""
        addresses: list[MachineAddress] = []
        for machine, received in sorted(self._received.items()):
            report = received.report
            if report.generation == self._generation and report.coordinator:
                addresses.append(MachineAddress(machine, report.coordinator))
            elif report.finished and report.lost == self._generation:
                addresses.append(MachineAddress(machine, "", finished=True))
        return tuple(addresses)

    def _missing_machines(self, now: float) -> tuple[int, ...]:
        """Returns the machines that the run waits for: silent ones, and those to which there is no connection."""
        unreachable = self.unreachable_machines(now)
        return tuple(
            machine
            for machine in self._machines
            if machine in unreachable or not self._has_reported_lately(machine, now)
        )

    def _has_reported_lately(self, machine: int, now: float) -> bool:
        """Tells whether a report of the machine was received within the last SILENCE_TIMEOUT seconds."""
        received = self._received.get(machine)
        return received is not None and received.age(now) <= SILENCE_TIMEOUT

    def _is_rival(self, machine: int, report: MachineReport, now: float) -> bool:
        """Tells whether a report comes from a second supervisor with the index of a machine that reported a moment ago.

        The earlier supervisor may be dead and this one its successor, so the second one is accepted after
        SILENCE_TIMEOUT / 2 seconds of the first one's silence.
        """
        first = self._received.get(machine)
        if first is None or first.report.life == report.life or first.age(now) > SILENCE_TIMEOUT / 2:
            self._rivals.pop((machine, report.life), None)
            return False
        self._rivals.setdefault((machine, report.life), now)
        return True

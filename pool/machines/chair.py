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

PATIENCE = 10.0  # seconds of silence after which a machine counts as lost, and its generation ends


@dataclass
class _Known:
    """Holds the newest report of a machine, and when it was received."""

    report: MachineReport
    heard: float


class Chair:
    """Keeps the state of a run on several machines and answers each machine's report with orders."""

    def __init__(self, machines: int) -> None:
        self._machines = range(machines)
        self._known: dict[int, _Known] = {}
        self._lives: dict[int, str] = {}  # id of each machine's supervisor when the generation began
        self._rivals: dict[tuple[int, str], float] = {}  # other supervisors with a machine's index: since when
        self._generation = 0
        self._step = 0
        self._broken = ""
        self._ended = ""
        self._finished = False
        self.refused: dict[int, str] = {}  # machines that can't take part, by their newest report, and the reason
        self._lack: dict[int, CheckpointLocation] = {}  # checkpoint that each machine has to copy before all can begin
        self._unconnected: dict[int, float] = {}  # machines to which there is no connection: since when

    def hear(self, machine: int, report: MachineReport, now: float) -> None:
        """Receives a report of a machine. Times are seconds of one monotonic clock."""
        if machine not in self._machines or self._is_rival(machine, report, now):
            return
        self._known[machine] = _Known(report, now)
        if max(report.generation, report.lost) > self._generation:  # a generation of this supervisor's predecessor
            self._generation, self._broken = max(report.generation, report.lost), "machine 0 has begun anew"
        if report.ended and not self._ended:
            self._ended = f"machine {machine}: {report.ended}"

    def excuse(self, seconds: float) -> None:
        """Shifts all times of receipt after a pause of this process, in which no report could be received. `seconds`:
        of the pause."""
        for known in self._known.values():
            known.heard += seconds
        self._unconnected = {machine: since + seconds for machine, since in self._unconnected.items()}

    def deaf(self, now: float) -> tuple[int, ...]:
        """Returns the machines whose reports arrive, but to which there was no connection to send for PATIENCE
        seconds."""
        return tuple(
            machine
            for machine in self._machines
            if now - self._unconnected.get(machine, now) > PATIENCE and self._is_heard(machine, now)
        )

    def look(self, now: float, unconnected: Collection[int] = ()) -> None:
        """Updates the state from the reports: refuses machines, ends a generation that is broken, begins the next one.

        `unconnected`: machines to which there is no connection to send now.
        """
        self._unconnected = {machine: self._unconnected.get(machine, now) for machine in unconnected}
        self._forget_refused()
        if self._ended or self._finished:
            return
        if self._generation and not self._broken:
            self._broken = self._why_broken(now)
        self._finished = self._all(lambda report: report.finished and report.lost == self._generation)
        self._lack = {}
        if not self._finished and (self._broken or not self._generation):
            self._begin()

    def orders(self, machine: int, report: MachineReport, now: float) -> MachineOrders:
        """Returns the orders for a machine that has sent `report`."""
        if machine not in self._machines:
            return MachineOrders(report.life, refused=f"the run has machines 0 to {self._machines[-1]} (--machines)")
        if (since := self._rivals.get((machine, report.life))) is not None:
            there = self._known[machine]
            refused = f"there is another machine {machine} (--machine), at {there.report.address}"
            return MachineOrders(report.life, refused=refused if there.heard > since else "")
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
            missing=self._missing(now),
            lacks=self._lack.get(machine),
        )

    def _forget_refused(self) -> None:
        """Refuses machines whose facts differ from the first machine's, and forgets their reports. The generation ends
        if such a machine takes part in it."""
        for machine, known in list(self._known.items()):
            self.refused.pop(machine, None)
            if why := self._refusal(machine, known.report):
                del self._known[machine]
                self.refused[machine] = why
                if self._generation and not self._broken:
                    self._broken = f"machine {machine} can't take part: {why}"

    def _why_broken(self, now: float) -> str:
        """Returns the reason why the generation can't go on, or an empty string if it can."""
        for machine, known in sorted(self._known.items()):
            report = known.report
            if report.life != self._lives[machine]:
                return f"machine {machine} has begun anew"
            if report.finished and report.lost == self._generation:
                continue
            if report.lost >= self._generation:
                return f"the coordinator of machine {machine} is dead"
            if report.generation == self._generation and now - known.heard > PATIENCE:
                return f"machine {machine} is not heard for {PATIENCE:g} s"
        return ""

    def _begin(self) -> None:
        """Begins the next generation if all machines are ready. If they have no common step, orders copies of a
        checkpoint."""
        if self._unconnected or not self._all(lambda report: report.lost == self._generation and report.steps):
            return
        reports = {machine: known.report for machine, known in self._known.items()}
        common = set.intersection(*(set(report.steps) for report in reports.values()))
        if not common:
            self._bring_together(reports)
            return
        self._generation += 1
        self._step = max(common)
        self._broken = ""
        self._lives = {machine: report.life for machine, report in reports.items()}

    def _bring_together(self, reports: Mapping[int, MachineReport]) -> None:
        """Orders machines that lack the newest checkpoint to copy it, when there is no step that all can begin with.

        Every machine is connected to the first one only, so the first machine copies it before any other does. Ends the
        run if a machine that lacks the checkpoint may not copy.
        """
        newest = max((step for report in reports.values() for step in report.saved), default=0)
        sources = [machine for machine, report in sorted(reports.items()) if newest in report.saved]
        lacking = [machine for machine, report in sorted(reports.items()) if newest not in report.steps]
        if sources and sources[0] != 0:
            lacking = [0]
        if not sources or not all(reports[machine].copies for machine in lacking):
            have = "; ".join(
                f"machine {machine} has {', '.join(map(str, sorted(report.steps)))}"
                for machine, report in sorted(reports.items())
            )
            self._ended = (
                f"no step that all machines can begin with: {have}; those that are started with --resume copy the "
                "newest checkpoint"
            )
            return
        self._lack = {machine: CheckpointLocation(newest, sources[0]) for machine in lacking}

    def _all(self, holds: Callable[[MachineReport], object]) -> bool:
        """Tells whether all machines have reported and the newest report of each fulfils a condition."""
        return len(self._known) == len(self._machines) and all(holds(known.report) for known in self._known.values())

    @property
    def _coordinators(self) -> tuple[MachineAddress, ...]:
        """Returns the addresses of the generation's coordinators that are known so far, and the machines that have
        finished."""
        found: list[MachineAddress] = []
        for machine, known in sorted(self._known.items()):
            report = known.report
            if report.generation == self._generation and report.coordinator:
                found.append(MachineAddress(machine, report.coordinator))
            elif report.finished and report.lost == self._generation:
                found.append(MachineAddress(machine, "", finished=True))
        return tuple(found)

    def _missing(self, now: float) -> tuple[int, ...]:
        """Returns the silent machines, and those to which there is no connection to send, for which the other machines
        wait."""
        deaf = self.deaf(now)
        return tuple(machine for machine in self._machines if machine in deaf or not self._is_heard(machine, now))

    def _is_heard(self, machine: int, now: float) -> bool:
        """Tells whether a report of the machine was received within the last PATIENCE seconds."""
        return machine in self._known and now - self._known[machine].heard <= PATIENCE

    def _is_rival(self, machine: int, report: MachineReport, now: float) -> bool:
        """Tells whether a report comes from a second supervisor with the index of a machine that reported a moment ago.

        The earlier supervisor may be dead and this one its successor, so the second one is accepted after PATIENCE / 2
        seconds of the first one's silence.
        """
        known = self._known.get(machine)
        if known is None or known.report.life == report.life or now - known.heard > PATIENCE / 2:
            self._rivals.pop((machine, report.life), None)
            return False
        self._rivals.setdefault((machine, report.life), now)
        return True

    def _refusal(self, machine: int, report: MachineReport) -> str:
        """Returns the first fact in which a machine differs from the first machine, or an empty string if there is
        none."""
        first = self._known.get(0)
        if first is None or machine == 0:
            return ""
        there = {fact.name: fact.value for fact in first.report.facts}
        for fact in report.facts:
            if there.get(fact.name, fact.value) != fact.value:
                return f"{fact.name}: {fact.value} on machine {machine}, {there[fact.name]} on machine 0"
        return ""

"""The first machine's books of a run on several: who is there, and which generation of coordinators computes. Pure: no
sockets, no clock.

A generation is a life of all coordinators, one a machine: they begin together with the same step, and when one of them
is lost all are ended. The next generation begins when every machine is there and has no coordinator any more, with the
newest step that all of them can begin with. So there is one way to recover, whatever was lost (I9).

The books hold nothing that the machines don't say again and again (I5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pool.protocol.messages import CheckpointPlace, MachineAddress, MachineOrders, MachineReport

PATIENCE = 10.0  # seconds of silence after which a machine whose coordinator lives is lost to its generation


@dataclass
class _Known:
    report: MachineReport
    heard: float


class Chair:
    def __init__(self, machines: int) -> None:
        self._machines = range(machines)
        self._known: dict[int, _Known] = {}
        self._lives: dict[int, str] = {}  # of the supervisors, when the generation began
        self._rivals: dict[tuple[int, str], float] = {}  # who says to be a machine that is heard: since when
        self._generation = 0
        self._step = 0
        self._broken = ""
        self._ended = ""
        self._finished = False
        self.refused: dict[int, str] = {}  # machines that can't take part as they were heard last, and why
        self._lack: dict[int, CheckpointPlace] = {}  # by machine: what it has to copy before all can begin
        self._unconnected: dict[int, float] = {}  # machines that can't be sent to: since when

    def hear(self, machine: int, report: MachineReport, now: float) -> None:
        """A machine has said how it is."""
        if machine not in self._machines or self._is_rival(machine, report, now):
            return
        self._known[machine] = _Known(report, now)
        if max(report.generation, report.lost) > self._generation:  # the books of this supervisor's predecessor
            self._generation, self._broken = max(report.generation, report.lost), "machine 0 has begun anew"
        if report.ended and not self._ended:
            self._ended = f"machine {machine}: {report.ended}"

    def excuse(self, seconds: float) -> None:
        """Nothing was listened to for so long: that is nobody's silence."""
        for known in self._known.values():
            known.heard += seconds
        self._unconnected = {machine: since + seconds for machine, since in self._unconnected.items()}

    def deaf(self, now: float) -> tuple[int, ...]:
        """Returns the machines that are heard, and that nothing could be sent to for PATIENCE."""
        return tuple(
            machine
            for machine in self._machines
            if now - self._unconnected.get(machine, now) > PATIENCE and self._is_heard(machine, now)
        )

    def look(self, now: float, unconnected: Collection[int] = ()) -> None:
        """Decides what follows from what was heard; `unconnected`: machines that can't be sent to now."""
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
        """Returns what a machine is told that has said this."""
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
        """A machine that can't take part is waited for as one that is not there; its generation is over."""
        for machine, known in list(self._known.items()):
            self.refused.pop(machine, None)
            if why := self._refusal(machine, known.report):
                del self._known[machine]
                self.refused[machine] = why
                if self._generation and not self._broken:
                    self._broken = f"machine {machine} can't take part: {why}"

    def _why_broken(self, now: float) -> str:
        """Why the generation can't go on; empty if it can."""
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
        """Begins the next generation if all machines are ready."""
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
        """There is no step that all can begin with: who lacks the newest checkpoint copies it. All are connected to the
        first machine alone, so that is the first to have it."""
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
        self._lack = {machine: CheckpointPlace(newest, sources[0]) for machine in lacking}

    def _all(self, holds: Callable[[MachineReport], object]) -> bool:
        """All machines are known, and what they have said last holds."""
        return len(self._known) == len(self._machines) and all(holds(known.report) for known in self._known.values())

    @property
    def _coordinators(self) -> tuple[MachineAddress, ...]:
        found: list[MachineAddress] = []
        for machine, known in sorted(self._known.items()):
            report = known.report
            if report.generation == self._generation and report.coordinator:
                found.append(MachineAddress(machine, report.coordinator))
            elif report.finished and report.lost == self._generation:
                found.append(MachineAddress(machine, "", finished=True))
        return tuple(found)

    def _missing(self, now: float) -> tuple[int, ...]:
        deaf = self.deaf(now)
        return tuple(machine for machine in self._machines if machine in deaf or not self._is_heard(machine, now))

    def _is_heard(self, machine: int, now: float) -> bool:
        return machine in self._known and now - self._known[machine].heard <= PATIENCE

    def _is_rival(self, machine: int, report: MachineReport, now: float) -> bool:
        """Another supervisor with the same index was heard a moment ago: it may be dead, and this its successor."""
        known = self._known.get(machine)
        if known is None or known.report.life == report.life or now - known.heard > PATIENCE / 2:
            self._rivals.pop((machine, report.life), None)
            return False
        self._rivals.setdefault((machine, report.life), now)
        return True

    def _refusal(self, machine: int, report: MachineReport) -> str:
        """Names the first difference to the first machine; empty if there is none."""
        first = self._known.get(0)
        if first is None or machine == 0:
            return ""
        there = {fact.name: fact.value for fact in first.report.facts}
        for fact in report.facts:
            if there.get(fact.name, fact.value) != fact.value:
                return f"{fact.name}: {fact.value} on machine {machine}, {there[fact.name]} on machine 0"
        return ""

"""Watches the other machines of a run, so that the coordinator of this machine begins and ends together with theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import ConfigError, RunError
from pool.machines.follower import Decision, MachineRefused, RunEnded, StartGeneration, StopGeneration
from pool.machines.group import MachineGroup
from pool.machines.rank import MachineRank
from pool.protocol.identity import Peer
from pool.protocol.messages import MachineAddress, RunReport
from pool.supervisor.listeners import Action, EndRun, KillCoordinator, SendRoster, StartCoordinator


class MachineWatch:
    """Turns orders of the first machine, and the silence of machines, into actions for this machine's supervisor."""

    def __init__(
        self,
        group: MachineGroup,
        timeout: float,
        print_line: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins to watch the machines of `group`.

        `timeout`: seconds to wait for a silent machine before the run ends; `print_line`: shows a line to the user;
        `clock`: returns seconds of monotonic time.
        """
        self._group = group
        self._timeout = timeout
        self._print_line = print_line
        self._clock = clock
        self._ended: _EndedCoordinator | None = None  # waits for a successor
        self._complete_at = clock()  # when no machine was missing last
        self._broken_generation = 0  # the newest generation whose end was shown to the user
        self._shown_wait = ""  # the newest line about missing machines that was shown
        self._is_stopping = False
        self._given_up = ""  # names of the silent machines because of which the run ends

    @property
    def has_group(self) -> bool:
        """Returns False if a silent machine was given up: the run ends then, and no machine is waited for any more."""
        return not self._given_up

    @property
    def coordinators(self) -> tuple[MachineAddress, ...]:
        """Returns the addresses of the other machines' coordinators."""
        return self._group.follower.coordinators if self.has_group else ()

    def handle_report(self, report: RunReport) -> None:
        """Receives a report of this machine's coordinator, and passes the coordinator's address on to the other
        machines."""
        if self.has_group:
            self._group.follower.report_coordinator(report.address)

    def coordinator_ended(
        self, peer: Peer, reason: str, steps: Sequence[int], saved: Sequence[int], *, finished: bool
    ) -> None:
        """Reports to the other machines that this machine's coordinator has ended.

        `steps`: with which a successor can begin; `saved`: the steps among these that have a checkpoint; `finished`:
        the coordinator has done all steps.
        """
        self._ended = _EndedCoordinator(peer, reason)
        self._group.follower.report_death(steps, saved, finished=finished)

    def poll(self, _events: Mapping[object, int]) -> Sequence[Action]:
        """Receives orders of the first machine and looks for silent machines. Returns the actions that follow, in
        order.

        Raises RunError if the run is over, ConfigError if this machine can't take part.
        """
        if not self.has_group:
            return []
        coordinators = self.coordinators
        actions = self._follow_decision(self._group.exchange_messages())
        if EndRun() in actions:
            return actions
        if self.coordinators != coordinators:
            actions.append(SendRoster())
        finished = self._group.follower.report.finished
        if finished and self._group.is_leader_silent:
            return [*actions, EndRun()]  # the first machine knows that and has ended
        actions += self._check_missing_machines()
        if self._ended is not None and not finished and self._is_stopping:
            actions.append(EndRun())  # there is no step to finish
        return actions

    def stop(self) -> None:
        """Records that the run is being stopped: a coordinator that has ended gets no successor."""
        self._is_stopping = True

    def _follow_decision(self, decision: Decision | None) -> list[Action]:
        """Turns a decision about this machine into actions. Raises RunError, ConfigError."""
        match decision:
            case MachineRefused(reason):
                raise ConfigError(reason)
            case RunEnded(reason) if reason:
                raise RunError(reason, EXIT_CRASH_LOOP)
            case RunEnded():
                return [EndRun()]
            case StopGeneration(reason):
                if self._broken_generation != self._group.follower.generation:  # the order repeats until it is obeyed
                    self._broken_generation = self._group.follower.generation
                    self._print_line(reason)
                return [KillCoordinator("has to begin anew with those of the other machines")]
            case StartGeneration(generation, step):
                return [self._start_successor(self._group.rank_in_generation(generation), step)]
            case None:
                return []

    def _start_successor(self, rank: MachineRank | None, step: int | None) -> StartCoordinator:
        """Returns the action that starts a successor of the ended coordinator.

        `rank`: this machine's rank, or None to go on without other machines; `step`: with which it begins, or None
        for the newest of this machine.
        """
        assert self._ended is not None
        ended, self._ended = self._ended, None
        return StartCoordinator(ended.peer, ended.reason, rank, step)

    def _check_missing_machines(self) -> Sequence[Action]:
        """Ends the run on this machine if another machine has been silent for longer than the timeout.

        First kills the coordinator. Then starts a successor without the other machines, which saves the newest step as
        a checkpoint.
        """
        now, missing = self._clock(), self._group.missing_machines
        self._show_wait(missing)
        if not missing:
            self._complete_at = now
        if now - self._complete_at <= self._timeout:
            return []
        if self._ended is None:
            return [KillCoordinator(f"waits for {missing}")]
        self._print_line(f"{missing} is not heard for {self._timeout:g} s: saving what there is")
        self._given_up = missing
        self._group.close()
        return [self._start_successor(None, None)]

    def _show_wait(self, missing: str) -> None:
        """Tells the user, once, which machines are missing. `missing`: their names, or empty."""
        line = f"waiting up to {self._timeout:g} s for {missing}: {self._group.advice}" if missing else ""
        if line and line != self._shown_wait:
            self._print_line(line)
        self._shown_wait = line


@dataclass(frozen=True)
class _EndedCoordinator:
    """Names a coordinator that has ended, and the reason."""

    peer: Peer
    reason: str

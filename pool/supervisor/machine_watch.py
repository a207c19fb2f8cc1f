"""Listens to the other machines of a run: the coordinator here ends and begins together with theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import ConfigError, RunError
from pool.machines.group import MachineGroup
from pool.machines.member import Begin, Break, Decision, Over, Refused
from pool.protocol.identity import Peer
from pool.protocol.messages import MachineAddress, RunReport
from pool.supervisor.listeners import Action, EndRun, KillCoordinator, SendRoster, StartCoordinator


class MachineWatch:
    def __init__(
        self,
        group: MachineGroup,
        timeout: float,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout`: seconds that a machine is waited for; `say`: shows a line to the run's user."""
        self._group = group
        self._timeout = timeout
        self._say = say
        self._clock = clock
        self._ended: tuple[Peer, str] | None = None  # the coordinator that has ended, and why
        self._complete_at = clock()  # when all machines were heard last
        self._broken = 0  # the generation of machines whose end was shown last
        self._shown_wait = ""  # the line that names the machines that are waited for
        self._is_stopping = False
        self.missed = ""  # the machines without which the run has to end

    @property
    def has_group(self) -> bool:
        """The coordinator here begins with those of other machines."""
        return not self.missed

    @property
    def coordinators(self) -> tuple[MachineAddress, ...]:
        """The coordinators of the other machines."""
        return self._group.member.coordinators if self.has_group else ()

    def report(self, report: RunReport) -> None:
        """Receives a report of the coordinator here: it is up."""
        if self.has_group:
            self._group.member.reached_at(report.address)

    def coordinator_ended(
        self, peer: Peer, why: str, steps: Sequence[int], saved: Sequence[int], *, finished: bool
    ) -> None:
        """The coordinator here has ended. Its successor can begin with any of `steps`, of which those `saved` have a
        checkpoint; `finished`: it has done all."""
        self._ended = peer, why
        self._group.member.lost(steps, saved, finished=finished)

    def hear(self, _events: Mapping[object, int]) -> Sequence[Action]:
        """Does what the first machine orders, and looks who is not heard. Raises RunError, ConfigError."""
        if not self.has_group:
            return []
        coordinators = self.coordinators
        actions = self._obey(self._group.hear())
        if EndRun() in actions:
            return actions
        if self.coordinators != coordinators:
            actions.append(SendRoster())
        finished = self._group.member.report.finished
        if finished and self._group.first_is_gone:
            return [*actions, EndRun()]  # the first machine has heard of that, and is gone
        actions += self._look_who_is_missing()
        if self._ended is not None and not finished and self._is_stopping:
            actions.append(EndRun())  # there is no step to finish
        return actions

    def stop(self) -> None:
        """The run is being stopped: a coordinator that has ended gets no successor."""
        self._is_stopping = True

    def _obey(self, decision: Decision | None) -> list[Action]:
        match decision:
            case Refused(why):
                raise ConfigError(why)
            case Over(why) if why:
                raise RunError(why, EXIT_CRASH_LOOP)
            case Over():
                return [EndRun()]
            case Break(why):
                if self._broken != self._group.member.generation:  # it is ordered until it is done
                    self._broken = self._group.member.generation
                    self._say(why)
                return [KillCoordinator("has to begin anew with those of the other machines")]
            case Begin(generation, step):
                return [self._start(generation, step)]
            case None:
                return []

    def _start(self, generation: int | None, step: int | None) -> StartCoordinator:
        """`generation`: None without the other machines."""
        assert self._ended is not None
        (predecessor, why), self._ended = self._ended, None
        place = None if generation is None else self._group.of_generation(generation)
        return StartCoordinator(predecessor, why, place, step)

    def _look_who_is_missing(self) -> Sequence[Action]:
        """If a machine is not heard for too long, what there is becomes a checkpoint, and the run ends here."""
        now, missing = self._clock(), self._group.waits_for
        line = f"waiting up to {self._timeout:g} s for {missing}: {self._group.advice}" if missing else ""
        if line and line != self._shown_wait:
            self._say(line)
        self._shown_wait = line
        if not missing:
            self._complete_at = now
        if now - self._complete_at <= self._timeout:
            return []
        if self._ended is None:
            return [KillCoordinator(f"waits for {missing}")]
        self._say(f"{missing} is not heard for {self._timeout:g} s: saving what there is")
        self.missed = missing
        self._group.close()
        return [self._start(None, None)]

"""Decides what follows a death. Pure: from facts to a decision, with a sentence that says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.process.failure import Failure
from pool.protocol.identity import COORDINATOR, Peer

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)  # seconds before the first, second, ... restart without a step done
LIVES = 2  # of a process that end because its device can't be used; then the run goes on without the device


@dataclass(frozen=True)
class Decision:
    restart: bool
    why: str
    pause: float = 0.0  # seconds to wait before it
    exit_code: int = EXIT_CRASH_LOOP  # of the run, if there is none
    leave_out: bool = False  # the run goes on without the device; that of a worker, without the worker


@dataclass
class RestartPolicy:
    """A budget of deaths per place without progress; a step done makes it whole again. A device that can't be used in
    two lives of a process is left out, as long as a worker has another."""

    budget: int
    _deaths: Counter[tuple[str, int]] = field(default_factory=Counter)
    _raised: dict[tuple[str, int], str] = field(default_factory=dict)  # signature of the newest exception, by place
    _lost: Counter[tuple[str, int]] = field(default_factory=Counter)  # lives that ended with the device, by place
    _left_out: set[tuple[str, int]] = field(default_factory=set)  # places of workers
    _step: int = -1

    def progress(self, step: int) -> None:
        """The run has done `step` steps."""
        if step > self._step:
            self._step = step
            self._deaths.clear()
            self._raised.clear()

    def died(
        self,
        peer: Peer,
        failure: Failure | None = None,
        *,
        batch: int | None = None,
        needed: bool = True,
        others: Sequence[str] = (),
    ) -> Decision:
        """A process is dead that was not told to end.

        `failure`: the exception that ended it, if one did; `batch`: in which batch. The coordinator decides whether a
        batch can be computed and limits such deaths, so they don't count here.
        `needed`: the run can't go on without it now; if it can, the process is restarted without limit. `others`:
        devices of the workers that would be left without its device.
        """
        if self.is_left_out(peer):
            return _left_out(others)
        if failure is not None and failure.lost:
            return self._device_lost(peer, others)
        if failure is not None and failure.started and batch is not None:
            return Decision(True, "restarted; a batch that raises twice is not tried again")
        self._deaths[peer.place] += 1
        number = self._deaths[peer.place]
        pause = PAUSES[min(number, len(PAUSES)) - 1]
        if not needed and number > self.budget:
            return Decision(True, f"nobody waits for it: tried again in {PAUSES[-1]:g} s", PAUSES[-1])
        if failure is not None:
            if not failure.started:
                return Decision(False, "it never got ready", exit_code=failure.exit_code)
            if self._raised.get(peer.place) == failure.signature:
                return Decision(False, "the same exception ended it before", exit_code=failure.exit_code)
            self._raised[peer.place] = failure.signature
        if number > self.budget:
            return Decision(False, f"it died {number} times without a step done (pool.restarts = {self.budget})")
        when = f"in {pause:g} s " if pause else ""
        return Decision(True, f"restarted {when}(death {number} of {self.budget} without a step done)", pause)

    def is_left_out(self, peer: Peer) -> bool:
        return peer.place in self._left_out

    def leave_out(self, peer: Peer) -> None:
        """This worker's device is lost: its next death is its last."""
        self._left_out.add(peer.place)

    def _device_lost(self, peer: Peer, others: Sequence[str]) -> Decision:
        self._lost[peer.place] += 1
        if self._lost[peer.place] < LIVES:
            return Decision(True, f"tried once more in {PAUSES[2]:g} s", PAUSES[2])
        if not others:
            return Decision(False, "no other device is left: mend it or name others in pool.devices, then --resume")
        if peer.role == COORDINATOR:
            del self._lost[peer.place]  # those were of another device
            return Decision(True, f"the run goes on with {', '.join(others)}", leave_out=True)
        self.leave_out(peer)
        return _left_out(others)


def _left_out(others: Sequence[str]) -> Decision:
    return Decision(False, f"left out, the run goes on with {', '.join(others)}", leave_out=True)

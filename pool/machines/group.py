"""The supervisor's connection to those of the other machines. That of the first machine keeps the books (`Chair`);
every one, its own too, reports to it and takes its orders."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import zmq

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import RunError, UnavailableError
from pool.machines.addresses import Endpoint, is_ipv6
from pool.machines.chair import PATIENCE, Chair
from pool.machines.checkpoint_copy import copy_checkpoint, read_piece
from pool.machines.member import Decision, Member
from pool.machines.place import MachinePlace, named
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import CheckpointPiece, CheckpointPlace, CheckpointRequest, MachineOrders, MachineReport
from pool.protocol.resend import SAY_AGAIN_MS, SayAgain

ASK_AGAIN = 2.0  # seconds until a piece of a checkpoint is asked for once more
PAUSE = 5.0  # seconds: more than a busy supervisor takes from one look to the next
NEXT_ADDRESS = 3.0  # seconds without a connection after which another address of the first machine is called


class _NotFinishedError(Exception):
    """A copy is not to be finished."""

    def __init__(self, decision: Decision | None) -> None:
        super().__init__()
        self.decision = decision


class MachineGroup:
    def __init__(self, place: MachinePlace, first: Endpoint, addresses: Sequence[str]) -> None:
        """`first`: where the first machine is reached; `addresses`: all that its name stands for. Raises
        UnavailableError if this one is it and can't listen there."""
        self.place = place
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._chair = Chair(place.machines) if place.machine == 0 else None
        me = Peer(MACHINE, place.machine)
        port = first.port if self._chair is not None else place.port
        try:
            self._hub = MachineHub(self._context, place.key, me, place.host, port)
        except UnavailableError:
            self._context.term()
            raise
        self._calls = _endpoints_to_call(first, addresses, place.host)
        self._called = 0  # which of them
        self._called_at = time.monotonic()
        if self._chair is None:
            self._hub.connect({Peer(MACHINE, 0): self._first})
        self.member = Member(secrets.token_hex(8), self._hub.address)
        self._again = SayAgain()
        self._said: MachineReport | None = None
        self._reports: dict[int, MachineReport] = {}  # of the others, on the first machine
        self._told: dict[int, MachineOrders | None] = {}  # to them; None: they have asked again
        self._heard = self._looked = time.monotonic()
        self._checkpoints: Callable[[], Path] | None = None
        self._piece: tuple[CheckpointPiece, memoryview] | None = None  # that has come last

    def watch(self, poller: zmq.Poller) -> None:
        """From now on the poller tells when `hear` has something to do."""
        self._hub.watch(poller)

    def hear(self) -> Decision | None:
        """Takes what has come, says what has changed, or is to be said again; returns what is to be done."""
        self._hub.look()
        now = time.monotonic()
        self._excuse_pause(now)
        orders: MachineOrders | None = None
        for peer, message, frames in self._hub.receive():
            if peer.role != MACHINE or peer.index == self.place.machine:
                continue
            self._heard = now
            if self._chair is None and isinstance(message, MachineOrders) and peer.index == 0:
                orders = message
            elif self._chair is not None and isinstance(message, MachineReport):
                self._chair.hear(peer.index, message, now)
                self._reports[peer.index] = message
                self._told[peer.index] = None
                self._hub.connect({peer: message.address})
            elif isinstance(message, CheckpointRequest) and self._checkpoints is not None:
                piece, data = read_piece(self._checkpoints(), message)
                self._hub.send(peer.index, piece, [data])
            elif isinstance(message, CheckpointPiece) and frames:
                self._piece = message, frames[0]
        again = self._again.due()
        if self._chair is not None:
            self._chair.hear(0, self.member.report, now)
            self._chair.look(now, {machine for machine in self._reports if not self._hub.is_connected(machine)})
            orders = self._chair.orders(0, self.member.report, now)
            for machine, report in self._reports.items():
                told = self._chair.orders(machine, report, now)
                if told != self._told[machine]:
                    self._told[machine] = told
                    self._hub.send(machine, told)
        elif again or self.member.report != self._said:
            self._said = self.member.report
            self._call_next_address(now)
            self._hub.send(0, self.member.report)
        return None if orders is None else self.member.hear(orders)

    def _excuse_pause(self, now: float) -> None:
        """After a pause of this machine (SIGSTOP, suspended, its plan was made) the others were not silent: nobody has
        listened."""
        paused = now - self._looked
        self._looked = now
        if paused > PAUSE:
            self._heard += paused
            if self._chair is not None:
                self._chair.excuse(paused)

    @property
    def _first(self) -> str:
        """Returns the endpoint at which the first machine is called now."""
        return self._calls[self._called]

    def _call_next_address(self, now: float) -> None:
        """Calls the first machine at its next address, if there are more and no connection is made to this one."""
        if self._hub.is_connected(0) or len(self._calls) == 1:
            self._called_at = now
        elif now - self._called_at > NEXT_ADDRESS:
            self._called = (self._called + 1) % len(self._calls)
            self._called_at = now
            self._hub.connect({Peer(MACHINE, 0): self._first})

    @property
    def _where(self) -> str:
        """Says what there is to compare if no connection is made: the address, besides the key and firewalls."""
        return f"listens at {self._hub.address}" if self._chair is not None else f"calls machine 0 at {self._first}"

    @property
    def waits_for(self) -> str:
        """The machines that are not heard, or can't hear, in words; empty: there are none."""
        missing = named((0,)) if self.first_is_gone else named({*self.member.missing} - {self.place.machine})
        refused = {} if self._chair is None else self._chair.refused
        return f"{missing}, which can't take part: {'; '.join(refused.values())}" if missing and refused else missing

    @property
    def advice(self) -> str:
        """Returns what to do about the machines that are waited for: of a connection that fails, its address and
        port."""
        if self._chair is not None:
            return self._advice_of_first(self._chair)
        if not self.first_is_gone:
            return "start it again with --resume"
        if self._hub.is_connected(0):
            return (
                f"it is reached at {self._first} and doesn't reach this machine at {self._hub.address}: let that port "
                "through a firewall (--port fixes it)"
            )
        return (
            f"there is no connection to {self._first}: start it with --resume, or let that port through a firewall, or "
            "compare the keys"
        )

    def _advice_of_first(self, chair: Chair) -> str:
        deaf = chair.deaf(time.monotonic())
        if deaf:
            where = " and ".join(f"machine {machine} at {self._reports[machine].address}" for machine in deaf)
            return (
                f"it is heard, but there is no connection to {where}: let that port through a firewall there (--port "
                "fixes it)"
            )
        return (
            f"start it again with --resume; if it runs, a firewall here may close {self._hub.address}, or it has "
            "another key"
        )

    @property
    def first_is_gone(self) -> bool:
        """The first machine, if that is another, is not heard any more."""
        return self._chair is None and self.alone

    @property
    def alone(self) -> bool:
        """No other machine is heard any more: the first one, on that any."""
        return time.monotonic() - self._heard > PATIENCE

    def wait_for_step(
        self,
        checkpoints: Callable[[], Path],
        given_up: Callable[[], bool],
        say: Callable[[str], object],
        timeout: float,
    ) -> Decision | None:
        """Waits for the first decision, or until `given_up`; says for whom.

        `checkpoints`: the folder of them, from which others may copy, now and later, and into which what this machine
        lacks is copied; `timeout`: seconds for which a machine is waited for once that was said. Raises
        CheckpointError, OSError; RunError when the time is over."""
        self._checkpoints = checkpoints
        poller = zmq.Poller()
        self.watch(poller)
        wait = _Wait(time.monotonic())
        say(f"machine {self.place.machine} of {self.place.machines}: {self._where}")
        while not given_up():
            poller.poll(SAY_AGAIN_MS)
            decision = self.hear()
            if decision is None and (lacks := self.member.lacks) is not None:
                say(f"copying the checkpoint of step {lacks.step} from machine {lacks.machine}")
                decision = self._copy(lacks, checkpoints(), poller, given_up)
                wait = _Wait(time.monotonic())
            if decision is not None:
                return decision
            for line in wait.lines(self.waits_for, self.advice, timeout, time.monotonic()):
                say(line)
            if wait.is_over(timeout, time.monotonic()):
                raise RunError(
                    f"{self.waits_for} is waited for in vain for {timeout:g} s (pool.machine_timeout): {self.advice}",
                    EXIT_CRASH_LOOP,
                )
        return None

    def _copy(
        self, place: CheckpointPlace, checkpoints: Path, poller: zmq.Poller, given_up: Callable[[], bool]
    ) -> Decision | None:
        """Copies a checkpoint, unless something is decided meanwhile, or another is to be copied."""

        def ask(request: CheckpointRequest) -> tuple[CheckpointPiece, memoryview]:
            again = 0.0
            while True:
                if (now := time.monotonic()) >= again:
                    self._hub.send(place.machine, request)
                    again = now + ASK_AGAIN
                poller.poll(SAY_AGAIN_MS)
                if (decision := self.hear()) is not None or self.member.lacks != place or given_up():
                    raise _NotFinishedError(decision)
                if self._piece is not None:
                    piece, data = self._piece
                    self._piece = None
                    if piece.request == request:
                        return piece, data

        try:
            copy_checkpoint(ask, checkpoints, place.step)
        except _NotFinishedError as ended:
            return ended.decision
        self.member.can_begin([place.step], copies=True)
        return None

    def of_generation(self, generation: int) -> MachinePlace:
        """Returns the place, for a coordinator of that generation."""
        return replace(self.place, generation=generation)

    def ends(self, why: str) -> None:
        """The run is over here, and so everywhere."""
        self.member.ends(why)
        self.hear()

    def close(self) -> None:
        """Ends it; what was said may still leave for a moment."""
        if self._context.closed:
            return
        self._hub.close(linger_ms=500)
        self._context.term()


@dataclass
class _Wait:
    """The wait for the first step, and what was said of it."""

    began: float
    said: str = ""  # for whom it waits
    advice: str = ""  # that was given
    advised: float | None = None  # when advice was given first since all machines were heard

    def lines(self, waits_for: str, advice: str, timeout: float, now: float) -> Iterator[str]:
        """Yields what is to be said now: after a moment for whom, and when they should have been heard what to do."""
        whom = waits_for or "the others"
        if whom != self.said and now - self.began > 2.0:
            self.said = whom
            yield f"waiting for {whom}"
        if not waits_for:
            self.advised, self.advice = None, ""
        elif advice != self.advice and now - self.began > PATIENCE:
            self.advice = advice
            self.advised = now if self.advised is None else self.advised
            yield f"waiting up to {timeout:g} s for {waits_for}: {advice}"

    def is_over(self, timeout: float, now: float) -> bool:
        """Tells whether machines were waited for so long since advice was given."""
        return self.advised is not None and now - self.advised > timeout


def _endpoints_to_call(first: Endpoint, addresses: Sequence[str], own: str) -> list[str]:
    """Returns what to connect to: the name, which ZeroMQ looks up anew at each try, and if it has several addresses in
    the family of the own one each of these."""
    family = [address for address in addresses if is_ipv6(address) == is_ipv6(own)]
    hosts = [first.host, *(family if len(family) > 1 else [])]
    return [f"tcp://{Endpoint(host, first.port)}" for host in dict.fromkeys(hosts)]

"""Connects this machine's supervisor to the supervisors of the other machines.

Every supervisor, the first machine's too, reports to the first machine and follows its orders. The first machine's
supervisor makes these orders (`Chair`).
"""

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
from pool.protocol.messages import CheckpointLocation, CheckpointRequest, CheckpointShard, MachineOrders, MachineReport
from pool.protocol.resend import RESEND_MS, ResendTimer

ASK_AGAIN = 2.0  # seconds until a block of a checkpoint is requested again
PAUSE = 5.0  # seconds: longer than a busy supervisor takes between two calls of `hear`
NEXT_ADDRESS = 3.0  # seconds without a connection after which the first machine's next address is tried


class _NotFinishedError(Exception):
    """Ends the copy of a checkpoint before it is complete."""

    def __init__(self, decision: Decision | None) -> None:
        super().__init__()
        self.decision = decision


class MachineGroup:
    """Exchanges reports, orders and checkpoints with the supervisors of the other machines."""

    def __init__(self, place: MachinePlace, first: Endpoint, addresses: Sequence[str]) -> None:
        """Opens a port and connects to the first machine.

        `place`: this machine's rank and settings; `first`: where the first machine is reached; `addresses`: all
        addresses of its name. Raises UnavailableError if this is the first machine and it can't listen there.
        """
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
        self._called = 0  # index of the endpoint that is tried now
        self._called_at = time.monotonic()
        if self._chair is None:
            self._hub.connect({Peer(MACHINE, 0): self._first})
        self.member = Member(secrets.token_hex(8), self._hub.address)
        self._again = ResendTimer()
        self._said: MachineReport | None = None
        self._reports: dict[int, MachineReport] = {}  # newest report of each other machine, on the first machine
        self._told: dict[int, MachineOrders | None] = {}  # newest orders for each machine; None: to be resent
        self._heard = self._looked = time.monotonic()
        self._checkpoints: Callable[[], Path] | None = None
        self._piece: tuple[CheckpointShard, memoryview] | None = None  # newest block of a checkpoint that was received

    def watch(self, poller: zmq.Poller) -> None:
        """Registers the connections with a poller, which then tells when to call `hear`."""
        self._hub.watch(poller)

    def hear(self) -> Decision | None:
        """Receives messages, and sends what has changed or has to be repeated. Returns what this machine has to do, or
        None."""
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
            elif isinstance(message, CheckpointShard) and frames:
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
        """Leaves out a pause of this machine when silence is measured, since no message could be received meanwhile.

        Pauses have many causes: SIGSTOP, a suspended machine, the time in which the run's plan was made.
        """
        paused = now - self._looked
        self._looked = now
        if paused > PAUSE:
            self._heard += paused
            if self._chair is not None:
                self._chair.excuse(paused)

    @property
    def _first(self) -> str:
        """Returns the endpoint at which this machine tries to reach the first machine now."""
        return self._calls[self._called]

    def _call_next_address(self, now: float) -> None:
        """Tries the next address of the first machine, if it has more and the current one gave no connection for a
        while."""
        if self._hub.is_connected(0) or len(self._calls) == 1:
            self._called_at = now
        elif now - self._called_at > NEXT_ADDRESS:
            self._called = (self._called + 1) % len(self._calls)
            self._called_at = now
            self._hub.connect({Peer(MACHINE, 0): self._first})

    @property
    def _where(self) -> str:
        """Returns in words where this machine listens or calls, for the user to compare if no connection is made."""
        return f"listens at {self._hub.address}" if self._chair is not None else f"calls machine 0 at {self._first}"

    @property
    def waits_for(self) -> str:
        """Returns the names of the machines that are not received from, or can't be sent to. Empty if there are
        none."""
        missing = named((0,)) if self.first_is_gone else named({*self.member.missing} - {self.place.machine})
        refused = {} if self._chair is None else self._chair.refused
        return f"{missing}, which can't take part: {'; '.join(refused.values())}" if missing and refused else missing

    @property
    def advice(self) -> str:
        """Returns what the user can do about the machines that are waited for, with address and port of a connection
        that fails."""
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
        """Returns what the user can do, on the first machine."""
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
        """Tells whether the first machine is another one and has been silent for PATIENCE seconds."""
        return self._chair is None and self.alone

    @property
    def alone(self) -> bool:
        """Tells whether no other machine was received from for PATIENCE seconds. The first machine listens to all
        others, each of them to the first machine only."""
        return time.monotonic() - self._heard > PATIENCE

    def wait_for_step(
        self,
        checkpoints: Callable[[], Path],
        given_up: Callable[[], bool],
        say: Callable[[str], object],
        timeout: float,
    ) -> Decision | None:
        """Waits for the first decision about this machine, usually the step that all begin with, and shows what it
        waits for.

        `checkpoints`: returns the folder of checkpoints, from which other machines may copy, now and later, and into
        which a checkpoint is copied that this machine lacks. `given_up`: tells whether to stop waiting; then returns
        None. `say`: shows a line to the user. `timeout`: seconds to wait for a machine after advice about it was shown.

        Raises RunError when the time is over; CheckpointError, OSError.
        """
        self._checkpoints = checkpoints
        poller = zmq.Poller()
        self.watch(poller)
        wait = _Wait(time.monotonic())
        say(f"machine {self.place.machine} of {self.place.machines}: {self._where}")
        while not given_up():
            poller.poll(RESEND_MS)
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
        self, place: CheckpointLocation, checkpoints: Path, poller: zmq.Poller, given_up: Callable[[], bool]
    ) -> Decision | None:
        """Copies a checkpoint from another machine.

        Returns None when the copy is complete. Stops early with the newest decision, or None, if there is a decision,
        if another checkpoint is to be copied, or if `given_up` says so.
        """

        def ask(request: CheckpointRequest) -> tuple[CheckpointShard, memoryview]:
            """Sends a request for a block until the answer comes. Raises _NotFinishedError if the copy has to stop."""
            again = 0.0
            while True:
                if (now := time.monotonic()) >= again:
                    self._hub.send(place.machine, request)
                    again = now + ASK_AGAIN
                poller.poll(RESEND_MS)
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
        """Returns this machine's place with the number of a generation, for that generation's coordinator."""
        return replace(self.place, generation=generation)

    def ends(self, why: str) -> None:
        """Reports that the run is over on this machine, which ends it on all machines."""
        self.member.ends(why)
        self.hear()

    def close(self) -> None:
        """Closes the connections. Messages sent before may still leave for half a second."""
        if self._context.closed:
            return
        self._hub.close(linger_ms=500)
        self._context.term()


@dataclass
class _Wait:
    """Holds the state of the wait for the first step, and what the user was shown of it."""

    began: float
    said: str = ""  # the machines that the user was shown last
    advice: str = ""  # the advice that was shown last
    advised: float | None = None  # when advice was first shown since no machine was missing

    def lines(self, waits_for: str, advice: str, timeout: float, now: float) -> Iterator[str]:
        """Yields the lines to show now: after two seconds which machines are waited for, after PATIENCE seconds what to
        do."""
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
        """Tells whether more than `timeout` seconds have passed since advice about missing machines was first shown."""
        return self.advised is not None and now - self.advised > timeout


def _endpoints_to_call(first: Endpoint, addresses: Sequence[str], own: str) -> list[str]:
    """Returns the endpoints at which to try to reach the first machine.

    The first is its name, which ZeroMQ looks up again at each try. If the name has several addresses of the family
    (IPv4 or IPv6) of this machine's own address, each of them follows.
    """
    family = [address for address in addresses if is_ipv6(address) == is_ipv6(own)]
    hosts = [first.host, *(family if len(family) > 1 else [])]
    return [f"tcp://{Endpoint(host, first.port)}" for host in dict.fromkeys(hosts)]

"""The supervisor's connection to those of the other machines. That of the first machine keeps the books (`Chair`);
every one, its own too, reports to it and takes its orders."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import zmq

from pool.errors import UnavailableError
from pool.machines.chair import PATIENCE, Chair
from pool.machines.checkpoint_copy import copy_checkpoint, read_piece
from pool.machines.member import Decision, Member
from pool.machines.place import MachinePlace, named
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import CheckpointPiece, CheckpointPlace, CheckpointRequest, MachineOrders, MachineReport
from pool.protocol.resend import SAY_AGAIN_MS, SayAgain

ASK_AGAIN = 2.0  # seconds until a piece of a checkpoint is asked for once more


class _NotFinishedError(Exception):
    """A copy is not to be finished."""

    def __init__(self, decision: Decision | None) -> None:
        super().__init__()
        self.decision = decision


class MachineGroup:
    def __init__(self, place: MachinePlace, first: str, port: int) -> None:
        """`first`, `port`: where the first machine is reached. Raises UnavailableError if it can't listen there."""
        self.place = place
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._chair = Chair(place.machines) if place.machine == 0 else None
        me = Peer(MACHINE, place.machine)
        try:
            self._hub = MachineHub(self._context, place.key, me, place.host, port if self._chair is not None else 0)
        except UnavailableError:
            self._context.term()
            raise
        self._first = f"tcp://{first}:{port}"
        if self._chair is None:
            self._hub.connect({Peer(MACHINE, 0): self._first})
        self.member = Member(secrets.token_hex(8), self._hub.address)
        self._again = SayAgain()
        self._said: MachineReport | None = None
        self._reports: dict[int, MachineReport] = {}  # of the others, on the first machine
        self._told: dict[int, MachineOrders | None] = {}  # to them; None: they have asked again
        self._heard = time.monotonic()
        self._checkpoints: Callable[[], Path] | None = None
        self._piece: tuple[CheckpointPiece, memoryview] | None = None  # that has come last

    def watch(self, poller: zmq.Poller) -> None:
        """From now on the poller tells when `hear` has something to do."""
        self._hub.watch(poller)

    def hear(self) -> Decision | None:
        """Takes what has come, says what has changed, or is to be said again; returns what is to be done."""
        self._hub.look()
        now = time.monotonic()
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
            self._chair.look(now)
            orders = self._chair.orders(0, self.member.report, now)
            for machine, report in self._reports.items():
                told = self._chair.orders(machine, report, now)
                if told != self._told[machine]:
                    self._told[machine] = told
                    self._hub.send(machine, told)
        elif again or self.member.report != self._said:
            self._said = self.member.report
            self._hub.send(0, self.member.report)
        return None if orders is None else self.member.hear(orders)

    @property
    def _where(self) -> str:
        """Says what there is to compare if no connection is made: the address, besides the key and firewalls."""
        return f"listens at {self._hub.address}" if self._chair is not None else f"calls machine 0 at {self._first}"

    @property
    def waits_for(self) -> str:
        """The machines that are not heard, in words; empty: all are."""
        missing = named((0,)) if self.first_is_gone else named(self.member.missing)
        refused = {} if self._chair is None else self._chair.refused
        return f"{missing}, which can't take part: {'; '.join(refused.values())}" if missing and refused else missing

    @property
    def first_is_gone(self) -> bool:
        """The first machine, if that is another, is not heard any more."""
        return self._chair is None and self.alone

    @property
    def alone(self) -> bool:
        """No other machine is heard any more: the first one, on that any."""
        return time.monotonic() - self._heard > PATIENCE

    def wait_for_step(
        self, checkpoints: Callable[[], Path], given_up: Callable[[], bool], say: Callable[[str], object]
    ) -> Decision | None:
        """Waits for the first decision, or until `given_up`; says for whom. `checkpoints`: the folder of them, from
        which others may copy, now and later, and into which what this machine lacks is copied. Raises CheckpointError,
        OSError."""
        self._checkpoints = checkpoints
        poller = zmq.Poller()
        self.watch(poller)
        said = ""
        since = time.monotonic()
        say(f"machine {self.place.machine} of {self.place.machines}: {self._where}")
        while not given_up():
            poller.poll(SAY_AGAIN_MS)
            decision = self.hear()
            if decision is None and (lacks := self.member.lacks) is not None:
                say(f"copying the checkpoint of step {lacks.step} from machine {lacks.machine}")
                decision = self._copy(lacks, checkpoints(), poller, given_up)
            if decision is not None:
                return decision
            waits_for = self.waits_for or "the others"
            if waits_for != said and time.monotonic() - since > 2.0:
                said, since = waits_for, time.monotonic()
                say(f"waiting for {waits_for}")
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

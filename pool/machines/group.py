"""Connects this machine's supervisor to the supervisors of the other machines.

Every supervisor, the first machine's too, reports to the first machine and follows its orders. The first machine's
supervisor makes these orders (`Leader`).
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
from pool.machines.checkpoint_copy import copy_checkpoint, read_block
from pool.machines.follower import Decision, Follower
from pool.machines.leader import SILENCE_TIMEOUT, Leader
from pool.machines.rank import MachineRank, format_machines
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import CheckpointLocation, CheckpointRequest, CheckpointShard, MachineOrders, MachineReport
from pool.protocol.resend import RESEND_MS, ResendTimer

REQUEST_AGAIN = 2.0  # seconds until a block of a checkpoint is requested again
MAX_BUSY = 5.0  # seconds: longer than a busy supervisor takes between two calls of `exchange_messages`
NEXT_ADDRESS = 3.0  # seconds without a connection after which the first machine's next address is tried


class _CopyStoppedError(Exception):
    """Stops the copy of a checkpoint before it is complete."""

    def __init__(self, decision: Decision | None) -> None:
        super().__init__()
        self.decision = decision


class MachineGroup:
    """Exchanges reports, orders and checkpoints with the supervisors of the other machines."""

    def __init__(self, rank: MachineRank, first: Endpoint, addresses: Sequence[str]) -> None:
        """Opens a port and connects to the first machine.

        `rank`: this machine's rank and settings; `first`: where the first machine is reached; `addresses`: all
        addresses of its name. Raises UnavailableError if this is the first machine and it can't listen there.
        """
        self.rank = rank
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._leader = Leader(rank.num_machines) if rank.machine == 0 else None
        me = Peer(MACHINE, rank.machine)
        port = first.port if self._leader is not None else rank.port
        try:
            self._hub = MachineHub(self._context, rank.key, me, rank.host, port)
        except UnavailableError:
            self._context.term()
            raise
        self._leader_endpoints = _endpoints_to_call(first, addresses, rank.host)
        self._endpoint_index = 0  # of the endpoint that is tried now
        self._endpoint_since = time.monotonic()
        if self._leader is None:
            self._hub.connect({Peer(MACHINE, 0): self._leader_endpoint})
        self.follower = Follower(secrets.token_hex(8), self._hub.address)
        self._resend_timer = ResendTimer()
        self._sent_report: MachineReport | None = None
        self._reports: dict[int, MachineReport] = {}  # newest report of each other machine, on the first machine
        self._sent_orders: dict[int, MachineOrders | None] = {}  # newest orders for each machine; None: to be resent
        self._received_at = self._polled_at = time.monotonic()
        self._checkpoints: Callable[[], Path] | None = None
        self._block: tuple[CheckpointShard, memoryview] | None = None  # newest block of a checkpoint that was received

    def register(self, poller: zmq.Poller) -> None:
        """Registers the connections with a poller, which then tells when to call `exchange_messages`."""
        self._hub.watch(poller)

    def exchange_messages(self) -> Decision | None:
        """Receives messages, and sends what has changed or has to be repeated. Returns what this machine has to do, or
        None."""
        self._hub.poll_connections()
        now = time.monotonic()
        self._discount_pause(now)
        orders = self._receive_messages(now)
        is_resend_due = self._resend_timer.due()
        if self._leader is not None:
            orders = self._lead(self._leader, now)
        elif is_resend_due or self.follower.report != self._sent_report:
            self._send_report(now)
        return None if orders is None else self.follower.apply_orders(orders)

    def _receive_messages(self, now: float) -> MachineOrders | None:
        """Handles all messages that have arrived. Returns the newest orders of the first machine, or None."""
        orders: MachineOrders | None = None
        for peer, message, frames in self._hub.receive():
            if peer.role != MACHINE or peer.index == self.rank.machine:
                continue
            self._received_at = now
            if self._leader is None and isinstance(message, MachineOrders) and peer.index == 0:
                orders = message
            elif self._leader is not None and isinstance(message, MachineReport):
                self._leader.receive_report(peer.index, message, now)
                self._reports[peer.index] = message
                self._sent_orders[peer.index] = None
                self._hub.connect({peer: message.address})
            elif isinstance(message, CheckpointRequest) and self._checkpoints is not None:
                answer, data = read_block(self._checkpoints(), message)
                self._hub.send(peer.index, answer, [data])
            elif isinstance(message, CheckpointShard) and frames:
                self._block = message, frames[0]
        return orders

    def _lead(self, leader: Leader, now: float) -> MachineOrders:
        """Updates the run's state, sends changed orders to the other machines, and returns those for this machine."""
        leader.receive_report(0, self.follower.report, now)
        leader.update(now, {machine for machine in self._reports if not self._hub.is_connected(machine)})
        for machine, report in self._reports.items():
            orders = leader.orders_for(machine, report, now)
            if orders != self._sent_orders[machine]:
                self._sent_orders[machine] = orders
                self._hub.send(machine, orders)
        return leader.orders_for(0, self.follower.report, now)

    def _send_report(self, now: float) -> None:
        """Sends this machine's report to the first machine."""
        self._sent_report = self.follower.report
        self._try_next_endpoint(now)
        self._hub.send(0, self.follower.report)

    def _discount_pause(self, now: float) -> None:
        """Subtracts a pause of this machine from the others' silence, since no message could be received meanwhile.

        Pauses have many causes: SIGSTOP, a suspended machine, the time in which the run's plan was made.
        """
        pause = now - self._polled_at
        self._polled_at = now
        if pause <= MAX_BUSY:
            return
        self._received_at += pause
        if self._leader is not None:
            self._leader.discount_pause(pause)

    @property
    def _leader_endpoint(self) -> str:
        """Returns the endpoint at which this machine tries to reach the first machine now."""
        return self._leader_endpoints[self._endpoint_index]

    def _try_next_endpoint(self, now: float) -> None:
        """Tries the next address of the first machine, if it has more and the current one gave no connection for a
        while."""
        if self._hub.is_connected(0) or len(self._leader_endpoints) == 1:
            self._endpoint_since = now
        elif now - self._endpoint_since > NEXT_ADDRESS:
            self._endpoint_index = (self._endpoint_index + 1) % len(self._leader_endpoints)
            self._endpoint_since = now
            self._hub.connect({Peer(MACHINE, 0): self._leader_endpoint})

    @property
    def missing_machines(self) -> str:
        """Returns the names of the machines that are not received from, or can't be sent to. Empty if there are
        none."""
        if self.is_leader_silent:
            return format_machines((0,))
        missing = format_machines({*self.follower.missing_machines} - {self.rank.machine})
        if missing and self._leader is not None and self._leader.refused:
            return f"{missing}, which can't take part: {'; '.join(self._leader.refused.values())}"
        return missing

    @property
    def advice(self) -> str:
        """Returns what the user can do about the machines that are waited for, with address and port of a connection
        that fails."""
        if self._leader is not None:
            return self._leader_advice(self._leader)
        if not self.is_leader_silent:
            return "start it again with --resume"
        if self._hub.is_connected(0):
            return (
                f"it is reached at {self._leader_endpoint} and doesn't reach this machine at {self._hub.address}: let "
                "that port through a firewall (--port fixes it)"
            )
        return (
            f"there is no connection to {self._leader_endpoint}: start it with --resume, or let that port through a "
            "firewall, or compare the keys"
        )

    def _leader_advice(self, leader: Leader) -> str:
        """Returns what the user can do, on the first machine."""
        unreachable = leader.unreachable_machines(time.monotonic())
        if unreachable:
            addresses = " and ".join(
                f"machine {machine} at {self._reports[machine].address}" for machine in unreachable
            )
            return (
                f"it is heard, but there is no connection to {addresses}: let that port through a firewall there "
                "(--port fixes it)"
            )
        return (
            f"start it again with --resume; if it runs, a firewall here may close {self._hub.address}, or it has "
            "another key"
        )

    @property
    def is_leader_silent(self) -> bool:
        """Tells whether the first machine is another one and has been silent for SILENCE_TIMEOUT seconds."""
        return self._leader is None and self.is_alone

    @property
    def is_alone(self) -> bool:
        """Tells whether no other machine was received from for SILENCE_TIMEOUT seconds. The first machine listens to
        all others, each of them to the first machine only."""
        return time.monotonic() - self._received_at > SILENCE_TIMEOUT

    def wait_for_decision(
        self,
        checkpoints: Callable[[], Path],
        should_stop: Callable[[], bool],
        notify: Callable[[str], object],
        timeout: float,
    ) -> Decision | None:
        """Waits for the first decision about this machine, usually the step that all begin with, and shows which
        machines are missing.

        `checkpoints`: returns the folder of checkpoints, from which other machines may copy, now and later, and into
        which a checkpoint is copied that this machine lacks. `should_stop`: tells whether to stop waiting; then returns
        None. `notify`: shows a line to the user. `timeout`: seconds to wait for a machine after advice about it was
        shown.

        Raises RunError when the time is over; CheckpointError, OSError.
        """
        self._checkpoints = checkpoints
        poller = zmq.Poller()
        self.register(poller)
        progress = _WaitProgress(time.monotonic())
        notify(f"machine {self.rank.machine} of {self.rank.num_machines}: {self._format_endpoint()}")
        while not should_stop():
            poller.poll(RESEND_MS)
            decision = self.exchange_messages()
            source = self.follower.checkpoint_to_copy
            if decision is None and source is not None:
                notify(f"copying the checkpoint of step {source.step} from machine {source.machine}")
                decision = self._copy_checkpoint(source, checkpoints(), poller, should_stop)
                progress = _WaitProgress(time.monotonic())
            if decision is not None:
                return decision
            for line in progress.lines(self.missing_machines, self.advice, timeout, time.monotonic()):
                notify(line)
            if progress.is_over(timeout, time.monotonic()):
                raise RunError(
                    f"{self.missing_machines} is waited for in vain for {timeout:g} s (pool.machine_timeout): "
                    f"{self.advice}",
                    EXIT_CRASH_LOOP,
                )
        return None

    def _format_endpoint(self) -> str:
        """Describes where this machine listens or calls, for the user to compare if no connection is made."""
        if self._leader is not None:
            return f"listens at {self._hub.address}"
        return f"calls machine 0 at {self._leader_endpoint}"

    def _copy_checkpoint(
        self, source: CheckpointLocation, checkpoints: Path, poller: zmq.Poller, should_stop: Callable[[], bool]
    ) -> Decision | None:
        """Copies a checkpoint from another machine.

        Returns None when the copy is complete. Stops early with the newest decision, or None, if there is a decision,
        if another checkpoint is to be copied, or if `should_stop` says so.
        """

        def request_block(request: CheckpointRequest) -> tuple[CheckpointShard, memoryview]:
            """Sends a request until the answer comes. Raises _CopyStoppedError if the copy has to stop."""
            next_send = 0.0
            while True:
                now = time.monotonic()
                if now >= next_send:
                    self._hub.send(source.machine, request)
                    next_send = now + REQUEST_AGAIN
                poller.poll(RESEND_MS)
                decision = self.exchange_messages()
                if decision is not None or self.follower.checkpoint_to_copy != source or should_stop():
                    raise _CopyStoppedError(decision)
                block, self._block = self._block, None
                if block is not None and block[0].request == request:
                    return block

        try:
            copy_checkpoint(request_block, checkpoints, source.step)
        except _CopyStoppedError as stopped:
            return stopped.decision
        self.follower.report_steps([source.step], copies=True)
        return None

    def rank_in_generation(self, generation: int) -> MachineRank:
        """Returns this machine's rank with the number of a generation, for that generation's coordinator."""
        return replace(self.rank, generation=generation)

    def report_end(self, reason: str) -> None:
        """Reports that the run is over on this machine, which ends it on all machines."""
        self.follower.report_end(reason)
        self.exchange_messages()

    def close(self) -> None:
        """Closes the connections. Messages sent before may still leave for half a second."""
        if self._context.closed:
            return
        self._hub.close(linger_ms=500)
        self._context.term()


@dataclass
class _WaitProgress:
    """Holds the state of the wait for the first step, and what the user was shown of it."""

    started_at: float
    shown_machines: str = ""  # the machines that the user was shown last
    shown_advice: str = ""
    advised_at: float | None = None  # when advice was first shown since no machine was missing

    def lines(self, missing: str, advice: str, timeout: float, now: float) -> Iterator[str]:
        """Yields the lines to show now: after two seconds which machines are waited for, after SILENCE_TIMEOUT seconds
        what to do."""
        waited = now - self.started_at
        machines = missing or "the others"
        if machines != self.shown_machines and waited > 2.0:
            self.shown_machines = machines
            yield f"waiting for {machines}"
        if not missing:
            self.advised_at = None
            self.shown_advice = ""
        elif advice != self.shown_advice and waited > SILENCE_TIMEOUT:
            self.shown_advice = advice
            if self.advised_at is None:
                self.advised_at = now
            yield f"waiting up to {timeout:g} s for {missing}: {advice}"

    def is_over(self, timeout: float, now: float) -> bool:
        """Tells whether more than `timeout` seconds have passed since advice about missing machines was first shown."""
        return self.advised_at is not None and now - self.advised_at > timeout


def _endpoints_to_call(first: Endpoint, addresses: Sequence[str], local_address: str) -> list[str]:
    """Returns the endpoints at which to try to reach the first machine.

    The first is its name, which ZeroMQ looks up again at each try. If the name has several addresses of the family
    (IPv4 or IPv6) of this machine's own address, each of them follows.
    """
    same_family = [address for address in addresses if is_ipv6(address) == is_ipv6(local_address)]
    hosts = [first.host]
    if len(same_family) > 1:
        hosts += same_family
    return [f"tcp://{Endpoint(host, first.port)}" for host in dict.fromkeys(hosts)]

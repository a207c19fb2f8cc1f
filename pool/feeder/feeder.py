"""The feeder process, from start to end: receives orders, has every free slot of the rings filled, reports.

No other process reads the data files or writes the ring. When the process ends there is nothing to clean up (I6).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NoReturn

import zmq

from loader.stream.interface import Filled
from loader.stream.skipped_data import SkippedData as SkippedKind
from pool.crash_points import crash_point
from pool.feeder.feature_coverage import FeatureCoverage, compares_features
from pool.feeder.ring import Ring
from pool.feeder.watched_stream import WatchedStream
from pool.process.start import FeederStart
from pool.protocol.channel import Link
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import (
    FeederOrders,
    FeederReport,
    Heartbeat,
    Hello,
    Purpose,
    Roster,
    SkippedDataReport,
    StreamOrders,
    UntrainedFeatures,
)
from pool.protocol.resend import RESEND_MS, ResendTimer
from pool.run_folder.access import show_real_paths
from pool.shm.memory import Memory
from pool.telemetry.trace import Trace

HEARTBEAT_SECONDS = 0.5
MAX_LOGGED = 100  # lines about data that were left out, for each ring
NICENESS = 5  # is added: the feeder works ahead, while the other processes wait for one another in every step

log = logging.getLogger(__name__)


class RingFeeder:
    """Fills one ring from its stream."""

    def __init__(self, start: FeederStart, memory: Memory, purpose: Purpose, trace: Trace) -> None:
        self._purpose = purpose
        self._trace = trace
        self.ring = Ring(len(memory.rings[purpose]))
        self._logged = 0  # lines about data that were left out
        self._start = start
        self.stream = WatchedStream(start, memory, purpose)

    def follow_orders(self, orders: StreamOrders) -> None:
        """Gives the stream the slots that are free now. Raises DataError."""
        fill = self.ring.apply_orders(orders)
        if fill.seek is not None:
            crash_point("feeder.before_seek")
            self.stream.seek(fill.seek)
            crash_point("feeder.after_seek")
        for batch in fill.batches:
            slot = self.ring.slot_of(batch)
            if self._purpose == "train" and not self._start.computes(batch):  # another machine does
                self.stream.pass_over(slot)
            else:
                self.stream.give(slot)
            self._trace.begin(f"{self._purpose} slot", slot)
            crash_point("feeder.slot_given")

    def collect_finished(
        self, on_left_out: Callable[[SkippedDataReport], object], on_batch: Callable[[Purpose, Filled], object]
    ) -> bool:
        """Notes the batches that the stream has finished, and returns True if there are any.

        Calls `on_batch` for each batch, and `on_left_out` for each chunk of which data were left out. Raises DataError.
        """
        has_new = False
        try:
            while (filled := self.stream.take()) is not None:
                self._trace.end(f"{self._purpose} slot", filled.slot)
                crash_point("feeder.batch_taken")
                on_batch(self._purpose, filled)
                self.ring.add_finished(filled)
                has_new = True
        finally:
            for chunk, kinds in groupby(self.stream.skipped(), lambda kind: kind.chunk):
                printable = (replace(kind, file=show_real_paths(kind.file)) for kind in kinds)
                report = SkippedDataReport(self._purpose, -1 if chunk is None else chunk, tuple(printable))
                self._log_left_out(report.kinds)
                on_left_out(report)
        return has_new

    def _log_left_out(self, kinds: Sequence[SkippedKind]) -> None:
        """Logs the first MAX_LOGGED; the supervisor counts all of them."""
        for kind in kinds:
            self._logged += 1
            if self._logged <= MAX_LOGGED:
                log.warning("data.on_bad_data = skip: %s", kind.describe("samples"))
            if self._logged == MAX_LOGGED:
                log.warning("data.on_bad_data = skip: further places are counted, and said at the end of the run")


def begin(start: FeederStart) -> Callable[[], NoReturn]:
    """Makes the feeder and returns its endless loop."""
    return Feeder(start).run


class Feeder:
    """The process: its two links, and a ring for training and one for validations."""

    def __init__(self, start: FeederStart) -> None:
        os.nice(NICENESS)  # also of the loader's threads, which this one starts
        context = zmq.Context[zmq.Socket[bytes]]()
        self._supervisor = Link(context, start.address_key, start.peer, Peer(SUPERVISOR), os.getppid())
        self._coordinator = Link(context, start.address_key, start.peer, start.coordinator, start.coordinator_pid)
        self._memory = memory = Memory(start.memory, start.segments)  # the streams' threads write into it
        trace = Trace(start.run_dir, start.peer, on=start.traced)
        self._train = RingFeeder(start, memory, "train", trace)
        self._validation = RingFeeder(start, memory, "validate", trace) if "validate" in start.files else None
        self._rings = [ring for ring in (self._train, self._validation) if ring is not None]
        self._coverage: FeatureCoverage | None = None
        if compares_features(start):
            self._coverage = FeatureCoverage(self._train.stream.schema, start.validation)

    def run(self) -> NoReturn:
        poller = zmq.Poller()
        poller.register(self._supervisor.socket, zmq.POLLIN)
        poller.register(self._coordinator.socket, zmq.POLLIN)
        for ring in self._rings:
            poller.register(ring.stream.fileno(), zmq.POLLIN)
        crash_point("feeder.before_hello")
        for link in (self._supervisor, self._coordinator):
            link.send(Hello(os.getpid()))
            crash_point("feeder.after_hello")

        next_heartbeat = 0.0
        resend = ResendTimer()
        while True:
            now = time.monotonic()
            if now >= next_heartbeat:
                next_heartbeat = now + HEARTBEAT_SECONDS
                self._supervisor.send(Heartbeat(0.0))  # sent by this loop: if the loop hangs, no heartbeat comes
            events = dict(poller.poll(RESEND_MS))
            must_report = resend.due()
            self._receive(events)
            for ring in self._rings:
                must_report |= ring.collect_finished(self._supervisor.send, self._compare_features)
            if must_report:
                self._report()

    def _compare_features(self, purpose: Purpose, filled: Filled) -> None:
        """Adds a batch to the comparison of the features of training and validations. Sends the supervisor the share
        that is never trained, once, when it is known."""
        if self._coverage is None:
            return
        slot = self._memory.batch_slot(purpose, filled.batch)
        if purpose == "train":
            self._coverage.add_training(filled, slot)
        else:
            self._coverage.add_validation(filled, slot)
        shares = self._coverage.shares()
        if shares is not None:
            self._coverage = None
            for share in shares:
                self._supervisor.send(UntrainedFeatures(share))

    def _receive(self, events: Mapping[object, int]) -> None:
        """Receives messages: who is the coordinator now, and its orders."""
        if self._supervisor.socket in events:
            for message in self._supervisor.receive():
                if isinstance(message, Roster) and self._coordinator.follow(message):
                    self._coordinator.send(Hello(os.getpid()))
        if self._coordinator.socket not in events:
            return
        for order in self._coordinator.receive():
            if isinstance(order, FeederOrders):
                self._train.follow_orders(order.train)
                if self._validation is not None and order.validation is not None:
                    self._validation.follow_orders(order.validation)

    def _report(self) -> None:
        crash_point("feeder.before_report")
        validation = None if self._validation is None else self._validation.ring.report()
        self._coordinator.send(FeederReport(self._train.ring.report(), validation))
        crash_point("feeder.after_report")

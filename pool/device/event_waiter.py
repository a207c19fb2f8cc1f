"""Waits for a device's events in a thread of its own, so that the threads that compute never wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import torch

Event = torch.Event | torch.cuda.Event


def host_event(stream: torch.Stream, *, spins: bool = False) -> Event:
    """Records an event on a stream, for a thread to wait for, not for another stream.

    The waiting thread sleeps. With `spins` it sees the event some microseconds sooner, and keeps a core busy until
    then.
    """
    if spins or stream.device.type != "cuda":
        return stream.record_event()
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # torch.Event's `blocking` does nothing
    numbers = {"stream_id": stream.stream_id, "device_index": stream.device_index, "device_type": stream.device_type}
    event.record(torch.cuda.Stream(**numbers))  # type: ignore[no-untyped-call]
    return event


@dataclass(frozen=True)
class _Arrival:
    """An event that is waited for, and what follows it: a call, and a future to be completed."""

    event: Event
    then: Callable[[], object]
    waiter: Future[None] | None = None


class Arrivals(threading.Thread):
    """A thread that waits for events in the order in which they are given, and calls a function after each.

    Once the device or a function has failed, no function is called any more.
    """

    def __init__(self) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._queue: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.start()

    def when(self, event: Event, then: Callable[[], object]) -> None:
        """Calls `then` in this object's thread after the event. Returns at once. Safe from any thread."""
        self._queue.put(_Arrival(event, then))

    def wait(self, event: Event) -> None:
        """Blocks until this event and all earlier ones have happened. Raises the error that the device, or an earlier
        function, has failed with."""
        waiter: Future[None] = Future()
        self._queue.put(_Arrival(event, lambda: None, waiter))
        waiter.result()

    def run(self) -> None:
        while True:
            arrival = self._queue.get()
            if self._error is None:
                try:
                    arrival.event.synchronize()
                    arrival.then()
                except BaseException as error:
                    self._error = error
            if arrival.waiter is not None:
                if self._error is None:
                    arrival.waiter.set_result(None)
                else:
                    arrival.waiter.set_exception(self._error)

"""Waits for a device's events in a thread of its own, so that the threads that compute never wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import torch

Event = torch.Event | torch.cuda.Event


def record_host_event(stream: torch.Stream, *, spins: bool = False) -> Event:
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
class _PendingEvent:
    """An event that is waited for, the function to call after it, and a future to complete after that."""

    event: Event
    on_done: Callable[[], object]
    completion: Future[None] | None = None


class EventWaiter(threading.Thread):
    """A thread that waits for events in the order in which they were queued, and calls a function after each.

    Once the device or a function has failed, no function is called any more.
    """

    def __init__(self) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._queue: queue.SimpleQueue[_PendingEvent] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.start()

    def call_after(self, event: Event, on_done: Callable[[], object]) -> None:
        """Calls `on_done` in this object's thread after the event. Returns at once. Safe from any thread."""
        self._queue.put(_PendingEvent(event, on_done))

    def wait(self, event: Event) -> None:
        """Blocks until this event and all earlier ones have happened. Raises the error that the device, or an earlier
        function, has failed with."""
        completion: Future[None] = Future()
        self._queue.put(_PendingEvent(event, lambda: None, completion))
        completion.result()

    def run(self) -> None:
        while True:
            self._process(self._queue.get())

    def _process(self, pending: _PendingEvent) -> None:
        """Waits for an event and calls its function, unless something has failed before. Completes its future."""
        if self._error is None:
            try:
                pending.event.synchronize()
                pending.on_done()
            except BaseException as error:
                self._error = error
        if pending.completion is None:
            return
        if self._error is None:
            pending.completion.set_result(None)
        else:
            pending.completion.set_exception(self._error)

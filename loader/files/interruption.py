"""Records signals that ask a long command to stop. The command checks for them at points where its work can be kept."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from loader.errors import InterruptedBySignalError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Records the first signal of SIGNALS that has arrived. Then `descriptor` becomes readable, for a poll."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.signal: signal.Signals | None = None
        self.wake: Callable[[], None] = lambda: None  # called by the handler, in the main thread

    def check(self) -> None:
        """Raises InterruptedBySignalError if a signal of SIGNALS has arrived."""
        if self.signal is not None:
            raise InterruptedBySignalError(self.signal)

    def _record(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number)
            os.eventfd_write(self.descriptor, 1)
        self.wake()


@contextmanager
def record_stop_signals() -> Iterator[Interruption]:
    """Records SIGNALS while the block runs, instead of letting them end the process. A signal that the caller ignores
    (`nohup`) stays ignored."""
    interruption = Interruption(os.eventfd(0, os.EFD_CLOEXEC))
    old_handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    recorded = [number for number in STOP_SIGNALS if old_handlers[number] is not signal.SIG_IGN]
    for number in recorded:
        signal.signal(number, interruption._record)
    try:
        yield interruption
    finally:
        for number in recorded:
            signal.signal(number, old_handlers[number])
        os.close(interruption.descriptor)

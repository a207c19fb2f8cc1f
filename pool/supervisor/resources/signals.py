"""Counts the Unix signals that stop a run, and provides a descriptor to poll. Handlers only record."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Any

from loader.exit_codes import EXIT_SIGNALLED

ONE_SECONDS = 0.05  # signals within this time count as one
# Slurm sends SIGUSR1 before its time limit where one asks for it, others SIGXCPU
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)


class StopSignals:
    """Counts signals to stop while entered as a context manager. `StopPlan` decides what the count means."""

    def __init__(self) -> None:
        self.count = 0
        self._first = signal.SIGINT
        self._last = -ONE_SECONDS
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_fd = -1

    def fileno(self) -> int:
        """Returns a descriptor that is readable after a signal, until `drain`."""
        return self._read

    def __enter__(self) -> StopSignals:
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup
            self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    @property
    def exit_code(self) -> int:
        """Returns the exit code that a shell reports for a program ended by the first of the signals, such as 130 for
        SIGINT."""
        return EXIT_SIGNALLED + self._first

    def drain(self) -> None:
        """Empties the descriptor. `count` stays."""
        try:
            while os.read(self._read, 64):
                pass
        except BlockingIOError:
            return

    def _record(self, number: int, _frame: FrameType | None) -> None:
        """Counts a signal, unless it follows another one within ONE_SECONDS."""
        now = time.monotonic()
        if self.count == 0:
            self._first = signal.Signals(number)
        if now > self._last + ONE_SECONDS:  # `timeout` signals the process and then its group
            self.count += 1
        self._last = now

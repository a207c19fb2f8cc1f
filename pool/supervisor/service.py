"""Tells the service manager that the run is ready, then that it makes progress (sd_notify(3)).

Without $NOTIFY_SOCKET nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket


class ServiceManager:
    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._computed = 0.0
        self._is_ready = False

    def progress(self, computed: float, *, waits: bool = False) -> None:
        """`computed`: seconds spent on finished batches. Pings the watchdog only if that has changed, or if the run
        `waits` for something that is none of its processes'."""
        if computed != self._computed or waits:
            self._send("WATCHDOG=1" if self._is_ready else "READY=1")
            self._is_ready = True
            self._computed = computed

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.sendto(text.encode(), self._address)

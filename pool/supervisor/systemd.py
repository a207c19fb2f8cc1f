"""Notifies the service manager (sd_notify(3)) that the run is ready, that it makes progress, and which step it is at.

Without $NOTIFY_SOCKET nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket

from pool.protocol.messages import RunReport
from pool.telemetry.progress import format_eta


class ServiceManager:
    """Sends the state of the run to the service manager."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._compute_seconds = 0.0  # as of the newest report
        self._is_ready = False  # READY=1 was sent
        self._status = ""

    def notify_progress(self, report: RunReport) -> None:
        """Sends a ping for the watchdog, and the status line if it has changed.

        The ping is sent only if a batch was finished since the last report, or if the run waits for something that its
        own processes don't do: room on the disk, or the export of nets.
        """
        has_computed = report.compute_seconds != self._compute_seconds
        if has_computed or report.waits_for_nets or report.waits_for_disk:
            self._send("WATCHDOG=1" if self._is_ready else "READY=1")
            self._is_ready = True
            self._compute_seconds = report.compute_seconds
        status = _format_status(report)
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def notify_stopping(self) -> None:
        """Notifies the service manager that the run is being stopped."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.sendto(text.encode(), self._address)


def _format_status(report: RunReport) -> str:
    """Returns the status line that `systemctl status` shows."""
    parts = [f"step {report.step}/{report.steps}", format_eta(report)]
    if report.waits_for_disk:
        parts.append("waits for room on the disk, to write what is left")
    if report.waits_for_nets:
        parts.append("waits for nets to be exported and tried")
    return ", ".join(filter(None, parts))

"""A second process of tests that uses no device: `python -m tests.pool.device.odd_process OPENING ASKED SOCKET`, what
happens to it when it should open one, and when it is asked."""

from __future__ import annotations

import os
import signal
import sys

from pool.device.second_process import Reply, serve
from pool.errors import ResourceError


def happen(what: str) -> None:
    """`what`: empty, nothing; else something that is known here, or words of a driver."""
    if what == "hang":
        signal.pause()
    elif what == "end":
        os._exit(0)
    elif what == "no room":
        raise ResourceError("the coordinator has no room")
    elif what.startswith("SIG"):
        signal.raise_signal(signal.Signals[what])
    elif what:
        raise RuntimeError(what)


def answer(text: str, fds: list[int]) -> Reply:
    happen(sys.argv[2])
    return (f"{text} {os.read(fds[0], 100).decode()}", fds) if fds else (text, ())


if __name__ == "__main__":
    serve(int(sys.argv[3]), lambda: happen(sys.argv[1]), answer)

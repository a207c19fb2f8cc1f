"""Waits for the child of `train`: passes its output on, its caller's KeyboardInterrupt to it."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_PIECE = 1 << 16
_PREFIX = "pool: "  # of an error's line


class Relay:
    """The relay of one child's output to `sys.stdout`, unless that is the child's as well; errors are kept."""

    def __init__(self, child: subprocess.Popen[bytes], quiet: bool) -> None:
        self._child = child
        self._quiet = quiet
        self._errors = bytearray()
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @staticmethod
    def outputs(quiet: bool) -> Mapping[str, Any]:
        """The files that the child writes to: arguments of Popen."""
        if quiet:
            return {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with suppress(AttributeError, OSError, ValueError):  # in a notebook it is no file
            if sys.stdout.fileno() == 1:
                sys.stdout.flush()
                return {"stdout": None, "stderr": subprocess.PIPE}
        return {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def attend(self) -> tuple[int, str, bool]:
        """Until the child has ended: exit code, what it said of its end, whether the caller was interrupted."""
        interrupted = False
        with selectors.DefaultSelector() as selector:
            for stream in (self._child.stdout, self._child.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            while True:
                try:
                    while selector.get_map():
                        self._hear(selector)
                    code = self._child.wait()
                    break
                except KeyboardInterrupt:
                    interrupted = True
                    self._child.send_signal(signal.SIGINT)
        errors = self._errors.decode(errors="replace").strip()
        if errors and code == 0 and not self._quiet:
            sys.stderr.write(f"{errors}\n")  # warnings of libraries
        return code, errors.removeprefix(_PREFIX), interrupted

    def _hear(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select():
            data = os.read(key.fd, _PIECE)
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
            elif key.fileobj is self._child.stdout:
                sys.stdout.write(self._text.decode(data))
                sys.stdout.flush()
            else:
                self._errors += data

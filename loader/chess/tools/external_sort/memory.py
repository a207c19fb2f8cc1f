"""Limits of the memory that a tool may use."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

SMALLEST_MEMORY = 64 << 20  # bytes; the smallest limit of memory that a tool accepts
_OWN = re.compile(rb"RssAnon:\s+(\d+) kB")


def anonymous_memory() -> int:
    """Returns the bytes of memory that this process has allocated already (RssAnon), or 32 MiB if the system does not
    report them."""
    with suppress(OSError):
        if found := _OWN.search(Path("/proc/self/status").read_bytes()):
            return int(found[1]) << 10
    return 32 << 20

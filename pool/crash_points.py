"""Provides named places at which a test can have this process die: `crash_point("coordinator.before_commit")`.

A name begins with the role of the process that passes the place. The places stand at every edge of the protocol and of
a checkpoint's way to disk, in C++ too (loader/native/common/crash_point.h). Nothing is armed in a real run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import loader._native
import pool._native
from pool.errors import ConfigError
from pool.protocol.identity import Peer

_SPEC = re.compile(r"(?P<name>(?P<role>[a-z]+)\.[a-z_.]+)(@(?P<at>\d{1,9}))?=(?P<how>kill|segv|stop|exit|note)")
_any = False


def crash_point(name: str) -> None:
    """Marks a place at which a test can have this process die. Does nothing unless `arm` has armed the place."""
    if _any:
        loader._native.crash_point(name)


def arm(specs: Iterable[str], peer: Peer) -> None:
    """Arms the places that `testing.crash_points` names for this process. Restarted processes are not armed.

    `specs`: ROLE.PLACE[@N]=HOW, where N counts the passes of the place. Raises ConfigError for any other form.
    """
    global _any
    for spec in specs:
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise ConfigError(f"testing.crash_points: {spec!r}: expected ROLE.PLACE[@N]=kill|segv|stop|exit|note")
        if match["role"] == peer.role and peer.incarnation == 1:
            _any = True
            for module in (loader._native, pool._native):
                module.arm_crash_point(match["name"], int(match["at"] or 1), match["how"])

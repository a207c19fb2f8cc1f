"""Which processes a run consists of, as the machine sees them."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """None if there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def roles(supervisor: int) -> dict[int, str]:
    """Living children of a run's supervisor by pid: worker, feeder, coordinator, planner, forkserver.

    A process writes to the log of who it is; one that has been forked, and not yet been told, to the fork server's.
    """
    found = {}
    for pid in children(supervisor):
        try:
            output = Path(f"/proc/{pid}/fd/1").readlink()
        except OSError:
            continue
        found[pid] = output.stem.partition("-")[0]
    return found

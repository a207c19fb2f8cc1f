"""Judges whether processes can share the memory of a run's cards: by what is noted of such cards, or by what two
processes find out now, which takes seconds and is noted. So a driver is tried once.

What has gone wrong for another reason, as a card that is full, is not noted: the next start tries it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial

import torch

from pool.device.memory_probes import sharing_problems
from pool.device.proof import COPIED, NEEDED, NEEDED_BY_SEVERAL, Record, Setup, note, notes_file
from pool.device.second_process import NotTriedError
from pool.device.shared_memory import shared_memory_of
from pool.exchange.device.card_copies import copy_problem


@dataclass(frozen=True)
class Verdict:
    proven: bool
    why: str  # for people


def card_proof(devices: Sequence[torch.device], module: str, seconds: float) -> Verdict:
    """Judges whether an exchange on these, all of one kind, works. `module`: `testing.device_module`; `seconds`: that
    trying may take."""
    kind, deadline = devices[0].type, time.monotonic() + seconds
    shared = shared_memory_of(kind)
    assert shared is not None
    copied = cache(partial(copy_problem, kind, module, deadline)) if len(devices) > 1 else None
    setups = {shared.setup(device): device for device in devices}
    verdicts = [
        _judged(setup, partial(sharing_problems, str(device), module, deadline), copied)
        for setup, device in setups.items()
    ]
    return next(
        (verdict for verdict in verdicts if not verdict.proven),
        Verdict(proven=True, why="; ".join(verdict.why for verdict in verdicts)),
    )


def _judged(setup: Setup, shared: Callable[[], dict[str, str]], copied: Callable[[], str] | None) -> Verdict:
    """`shared`, `copied`: try it, unless that is noted; None: one device does without."""
    needed, record = NEEDED if copied is None else NEEDED_BY_SEVERAL, Record.noted(setup)
    when, kept = f"on {record.day}", ""
    if record.lacks(needed):
        begin = time.monotonic()
        try:
            found = shared() if record.lacks(NEEDED) else {}
            if copied is not None and not any(found.values()):
                found[COPIED] = copied()
        except NotTriedError as error:
            why = f"it can't be tried now whether processes can share memory of {setup}: {error}"
            return Verdict(proven=False, why=why)
        record = Record(setup, datetime.now(UTC).date().isoformat(), {**record.problems, **found})
        when, kept = f"now, in {time.monotonic() - begin:.1f} s", _kept(record)
    tried = f"shared memory was tried {when}, {setup}"
    if problem := record.failed(needed):
        return Verdict(proven=False, why=f"{tried}: {problem}{kept or f'; to try it again, remove {notes_file()}'}")
    return Verdict(proven=True, why=f"{tried}: {record.passed()}{kept}")


def _kept(record: Record) -> str:
    """Notes it. Returns why that can't be done, for people."""
    try:
        note(record)
    except OSError as error:
        return f"; each start tries it, since that can't be noted: {error}"
    return "" if notes_file() else "; each start tries it, since there is no cache folder to note that in"

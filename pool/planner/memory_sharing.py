"""Determines whether processes can share the memory of a run's accelerators.

Results are noted in a file for each kind of device and driver. Without a note two processes try it now, which takes
seconds. So a driver is tried once. Failures for other reasons, such as full memory, are not noted, and the next start
tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial

import torch

from pool.device.memory_probes import find_sharing_problems
from pool.device.proof import COPIED, NEEDED, NEEDED_BY_SEVERAL, Record, Setup, records_path, write_record
from pool.device.second_process import NotTriedError
from pool.device.shared_memory import get_shared_memory
from pool.exchange.device.card_copies import find_copy_problem


@dataclass(frozen=True)
class CheckResult:
    """Whether sharing memory works, and the reason for it."""

    proven: bool
    why: str  # explanation for the user


def check_memory_sharing(devices: Sequence[torch.device], module: str, seconds: float) -> CheckResult:
    """Determines whether processes can exchange gradients and weights through the memory of these devices, all of one
    kind.

    `module`: `testing.device_module` of the config. `seconds`: time limit for trying it.
    """
    kind, deadline = devices[0].type, time.monotonic() + seconds
    shared = get_shared_memory(kind)
    assert shared is not None
    copied = cache(partial(find_copy_problem, kind, module, deadline)) if len(devices) > 1 else None
    setups = {shared.setup(device): device for device in devices}
    verdicts = [
        _judged(setup, partial(find_sharing_problems, str(device), module, deadline), copied)
        for setup, device in setups.items()
    ]
    return next(
        (verdict for verdict in verdicts if not verdict.proven),
        CheckResult(proven=True, why="; ".join(verdict.why for verdict in verdicts)),
    )


def _judged(setup: Setup, shared: Callable[[], dict[str, str]], copied: Callable[[], str] | None) -> CheckResult:
    """Judges one kind of device, by its note or by trying.

    `shared` and `copied` try sharing memory and copying between devices. `copied` is None if there is a single
    device.
    """
    needed, record = NEEDED if copied is None else NEEDED_BY_SEVERAL, Record.find(setup)
    when, kept = f"on {record.day}", ""
    if record.needs_tests(needed):
        begin = time.monotonic()
        try:
            found = shared() if record.needs_tests(NEEDED) else {}
            if copied is not None and not any(found.values()):
                found[COPIED] = copied()
        except NotTriedError as error:
            why = f"it can't be tried now whether processes can share memory of {setup}: {error}"
            return CheckResult(proven=False, why=why)
        record = Record(setup, datetime.now(UTC).date().isoformat(), {**record.problems, **found})
        when, kept = f"now, in {time.monotonic() - begin:.1f} s", _kept(record)
    tried = f"shared memory was tried {when}, {setup}"
    if problem := record.failure_line(needed):
        return CheckResult(
            proven=False, why=f"{tried}: {problem}{kept or f'; to try it again, remove {records_path()}'}"
        )
    return CheckResult(proven=True, why=f"{tried}: {record.passed_line()}{kept}")


def _kept(record: Record) -> str:
    """Writes a record to the file of notes. Returns text that explains why that is impossible; "" if it was written."""
    try:
        write_record(record)
    except OSError as error:
        return f"; each start tries it, since that can't be noted: {error}"
    return "" if records_path() else "; each start tries it, since there is no cache folder to note that in"

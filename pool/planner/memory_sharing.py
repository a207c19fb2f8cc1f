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

    works: bool
    reason: str  # explanation for the user


def check_memory_sharing(devices: Sequence[torch.device], module: str, seconds: float) -> CheckResult:
    """Determines whether processes can exchange gradients and weights through the memory of these devices, all of one
    kind.

    `module`: `testing.device_module` of the config. `seconds`: time limit for trying it.
    """
    kind, deadline = devices[0].type, time.monotonic() + seconds
    shared_memory = get_shared_memory(kind)
    assert shared_memory is not None
    try_copying = cache(partial(find_copy_problem, kind, module, deadline)) if len(devices) > 1 else None
    device_of_setup = {shared_memory.setup(device): device for device in devices}
    results = []
    for setup, device in device_of_setup.items():
        try_sharing = partial(find_sharing_problems, str(device), module, deadline)
        results.append(_check_setup(setup, try_sharing, try_copying))
    for result in results:
        if not result.works:
            return result
    return CheckResult(works=True, reason="; ".join(result.reason for result in results))


def _check_setup(
    setup: Setup, try_sharing: Callable[[], dict[str, str]], try_copying: Callable[[], str] | None
) -> CheckResult:
    """Checks one kind of device, by its note or by trying. `try_copying`, between devices, is None if there is a single
    device."""
    needed = NEEDED if try_copying is None else NEEDED_BY_SEVERAL
    record = Record.find(setup)
    time_of_trial = f"on {record.day}"
    note_problem = ""
    if record.needs_tests(needed):
        begin = time.monotonic()
        try:
            problems = try_sharing() if record.needs_tests(NEEDED) else {}
            if try_copying is not None and not any(problems.values()):
                problems[COPIED] = try_copying()
        except NotTriedError as error:
            reason = f"it can't be tried now whether processes can share memory of {setup}: {error}"
            return CheckResult(works=False, reason=reason)
        record = Record(setup, datetime.now(UTC).date().isoformat(), {**record.problems, **problems})
        time_of_trial = f"now, in {time.monotonic() - begin:.1f} s"
        note_problem = _save_note(record)
    trial = f"shared memory was tried {time_of_trial}, {setup}"
    problem = record.failure_line(needed)
    if not problem:
        return CheckResult(works=True, reason=f"{trial}: {record.passed_line()}{note_problem}")
    advice = note_problem or f"; to try it again, remove {records_path()}"
    return CheckResult(works=False, reason=f"{trial}: {problem}{advice}")


def _save_note(record: Record) -> str:
    """Writes a record to the file of notes. Returns "", or text for the user that explains why the record can't be
    written."""
    try:
        write_record(record)
    except OSError as error:
        return f"; each start tries it, since that can't be noted: {error}"
    if records_path():
        return ""
    return "; each start tries it, since there is no cache folder to note that in"

"""The run's memory, made and reserved before the first process gets any of it (I6)."""

from __future__ import annotations

from pool.errors import ResourceError
from pool.shm import eventfd, segment
from pool.shm.memory import write_sums
from pool.shm.memory_map import SUMS
from pool.supervisor.prepare import data_files
from pool.supervisor.prepare.memory_plan import memory_plan, mib, shortage, table
from pool.supervisor.prepare.resuming import saved_state
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.system_memory import available_memory


def reserve(run: RunPlan) -> RunMemory:
    """Makes the run's memory. Raises ResourceError if there is not enough, RunError if the data are not those of the
    checkpoint; OSError if there can be no bells."""
    sizes = run.memory_map().sizes()
    rows = memory_plan(run, sizes)
    remaining = sum(sizes.values())

    def before_chunk(nbytes: int) -> None:
        """Others take memory too; and in a control group the shortage would be a kill, not an error."""
        nonlocal remaining
        available = available_memory()
        if remaining > available.nbytes:
            raise ResourceError(
                f"not enough memory any more: {mib(remaining)} to reserve, {mib(available.nbytes)} available"
            )
        remaining -= nbytes

    if (problem := shortage(rows, available_memory())) is not None:
        raise ResourceError(problem)
    known = {}
    if run.checkpoint is not None:
        known = data_files.saved_sums(run, saved_state(run.checkpoint), run.checkpoint)
    segments: dict[str, int] = {}
    try:
        for name, size in sizes.items():
            segments[name] = segment.create(name, size, before_chunk)
        write_sums(segments[SUMS], run.planned.num_chunks, known)
    except (OSError, ResourceError) as error:
        RunMemory(segments).close()
        if isinstance(error, ResourceError):
            raise
        raise ResourceError(
            f"shared memory can't be made: {error.strerror}\n{table(rows, available_memory())}"
        ) from None
    try:
        return RunMemory(segments, sizes, eventfd.make(len(run.planned.devices)))
    except OSError:
        RunMemory(segments).close()
        raise

"""Plans the memory that a run will take, part by part, with the settings that make each part smaller, and reserves the
shared memory before the first process gets any of it (I6).

Sizes of shared segments are exact, and so is the optimizer's state, which the planner has tried out. Processes and the
loader's windows are measured values. Activations of workers are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.errors import DataError
from loader.stream.data import Data
from pool.errors import ResourceError
from pool.kernels.tree import max_nodes, max_nodes_anywhere
from pool.shm import segment
from pool.shm.memory import write_chunk_checksums
from pool.shm.memory_map import RING, SNAPSHOTS, SUMS
from pool.shm.signals import create_signals
from pool.supervisor.prepare import data_files
from pool.supervisor.prepare.resume import saved_state
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.system_memory import Available, available_memory, mib

SHARE = 0.9  # share of the available memory that a run may take; the rest is for activations and other programs
_MIB = 1 << 20
_WORKING = 8  # bytes for each byte collected for metrics, which are computed in float64 with a few more arrays
_PROCESS = 60 * _MIB  # bytes of supervisor or feeder
_TORCH_PROCESS = 300 * _MIB
_CUDA_PROCESS = 1200 * _MIB


@dataclass(frozen=True)
class Row:
    """Holds one part of the memory plan."""

    what: str
    nbytes: int
    keys: str  # settings that make it smaller


def memory_plan(run: RunPlan, sizes: Mapping[str, int]) -> list[Row]:
    """Returns the parts of the memory that a run will take. `sizes`: bytes of the shared segments, by name."""
    planned = run.planned
    keys = {
        RING: "data.batch_size, pool.ring_slots",
        SUMS: "data.train",
        **dict.fromkeys(SNAPSHOTS, "optimizer.name, model"),
    }
    gradients = sum(size for name, size in sizes.items() if name.startswith("gradients."))
    workers, grouped = len(planned.devices), run.config.train.batches_per_group > 1
    exchange = planned.exchange
    is_cuda = any(device.startswith("cuda:") for device in exchange.devices) and not exchange.one_process
    cards = sum(device.startswith("cuda:") for device in planned.devices)
    cuda = is_cuda + cards
    rows = [
        Row(f"{name} (shared)", size, keys.get(name, "model"))
        for name, size in sizes.items()
        if not name.startswith("gradients.")
    ]
    rows += [
        Row("gradients (shared)", gradients, "pool.gradient_slots, pool.devices, model"),
        *([Row("sums of groups", workers * planned.plan.nbytes, "train.batches_per_group")] if grouped else []),
    ]
    if run.config.train.gradient_dtype != "float32":
        rows.append(Row("gradients before they are rounded", (workers - cards) * planned.plan.nbytes, "model"))
    if exchange.on_device:
        rows.append(Row("copy of the device's state", planned.state_nbytes, "optimizer.name, model"))
    else:
        rows.append(Row("sums of gradients", most_sums(run) * planned.plan.nbytes, "model"))
        state = max(0, planned.state_nbytes - planned.plan.nbytes)
        rows.append(Row("optimizer state", state, "optimizer.name, model"))
    if collected := run.validation.batches * planned.measured.collected_nbytes(len(planned.plans)):
        rows.append(Row("metrics", _WORKING * collected, "train.validation_batches, data.batch_size"))
    streams = list(run.data.values())
    if run.validation.ends:  # the last, smaller batch comes from another stream
        streams.append(run.data["validate"])
    if windows := sum(map(_window_nbytes, streams)):
        rows.append(Row("loader windows", windows, "data.window_chunks"))
    torch_processes = 2 + workers - exchange.one_process
    base = 2 * _PROCESS + (torch_processes - cuda) * _TORCH_PROCESS + cuda * _CUDA_PROCESS
    rows.append(Row(f"{2 + torch_processes} processes", base, "pool.devices"))
    return rows


def _window_nbytes(data: Data) -> int:
    """Returns the bytes of the window in which a stream is shuffled. 0 for damaged data, which the stream reports
    later."""
    try:
        return data.window_nbytes()
    except DataError:  # the stream reports damaged data later
        return 0


def most_sums(run: RunPlan) -> int:
    """Returns the largest number of sums of gradients that the coordinator may hold at a time in one step.

    More than one is possible only where a worker has fewer gradient slots than a step has groups, so that parts of the
    step may have to be reduced early (I2), or where several machines compute the run.
    """
    place, groups = run.place, run.groups
    if place is not None:  # a share of a step consists of whole nodes of the tree, at its end too
        return max_nodes_anywhere(len(groups.share(place.machine, place.machines)))
    return max_nodes(groups.groups_per_step) if run.config.pool.gradient_slots < groups.groups_per_step else 1


def shortage(rows: Sequence[Row], available: Available) -> str | None:
    """Checks that the run fits into the available memory. Returns a line with the numbers and what to lower, or None if
    it fits."""
    need = sum(row.nbytes for row in rows)
    if need <= SHARE * available.nbytes:
        return None
    largest = sorted(rows, key=lambda row: -row.nbytes)[:3]
    parts = ", ".join(f"{row.what} {mib(row.nbytes)}: lower {row.keys}" for row in largest)
    return (
        f"not enough memory: the run needs {mib(need)}, and {SHARE:.0%} of {mib(available.nbytes)} may be taken "
        f"({available.where}); most are {parts}"
    )


def table(rows: Sequence[Row], available: Available) -> str:
    """Returns the memory plan as a table for people: a line for each part, then the sum and the memory available."""
    total = Row("together", sum(row.nbytes for row in rows), "")
    there = Row("available", available.nbytes, f"{available.where}; a run may take {SHARE:.0%} of it")
    width = max(len(row.what) for row in (*rows, total))
    return "\n".join(f"{row.what:{width}}  {mib(row.nbytes):>12}  {row.keys}".rstrip() for row in (*rows, total, there))


def reserve(run: RunPlan) -> RunMemory:
    """Makes and reserves the run's shared memory.

    Raises ResourceError if there is not enough, RunError if the data differ from the checkpoint's, OSError if
    signals (eventfds) can't be made.
    """
    sizes = run.memory_map().sizes()
    rows = memory_plan(run, sizes)
    remaining = sum(sizes.values())

    def before_chunk(nbytes: int) -> None:
        """Checks that a chunk of memory still fits, before it is reserved. `nbytes`: of the chunk. Raises
        ResourceError.

        Other programs take memory too, and in a control group the kernel would kill this process instead of raising an
        error.
        """
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
            segments[name] = segment.create_segment(name, size, before_chunk)
        write_chunk_checksums(segments[SUMS], run.planned.num_chunks, known)
    except (OSError, ResourceError) as error:
        RunMemory(segments).close()
        if isinstance(error, ResourceError):
            raise
        raise ResourceError(
            f"shared memory can't be made: {error.strerror}\n{table(rows, available_memory())}"
        ) from None
    try:
        return RunMemory(segments, sizes, create_signals(len(run.planned.devices)))
    except OSError:
        RunMemory(segments).close()
        raise

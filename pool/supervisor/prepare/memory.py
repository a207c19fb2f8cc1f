"""The memory that a run will take of the machine, part by part, with the settings that make each smaller; and how it is
made and reserved before the first process gets any of it (I6).

Segments are exact, and so is the optimizer's state, which the planner has tried out. Processes and the loader's windows
are what was measured; activations of workers are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.errors import DataError
from loader.stream.data import Data
from pool.errors import ResourceError
from pool.kernels.tree import most_nodes, most_nodes_between
from pool.shm import segment
from pool.shm.memory import write_sums
from pool.shm.memory_map import RING, SNAPSHOTS, SUMS
from pool.shm.signals import make_bells
from pool.supervisor.prepare import data_files
from pool.supervisor.prepare.resume import saved_state
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.system_memory import Available, available_memory, mib

SHARE = 0.9  # of what is available; the rest is for activations and others
_MIB = 1 << 20
_WORKING = 8  # times what is collected: a metric computes in float64, and with a few arrays more
_PROCESS = 60 * _MIB  # supervisor, feeder
_TORCH_PROCESS = 300 * _MIB
_CUDA_PROCESS = 1200 * _MIB


@dataclass(frozen=True)
class Row:
    what: str
    nbytes: int
    keys: str  # settings that make it smaller


def memory_plan(run: RunPlan, sizes: Mapping[str, int]) -> list[Row]:
    """`sizes`: of the segments, by name."""
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
    if run.validation.ends:  # another stream for the last batch
        streams.append(run.data["validate"])
    if windows := sum(map(_window_nbytes, streams)):
        rows.append(Row("loader windows", windows, "data.window_chunks"))
    torch_processes = 2 + workers - exchange.one_process
    base = 2 * _PROCESS + (torch_processes - cuda) * _TORCH_PROCESS + cuda * _CUDA_PROCESS
    rows.append(Row(f"{2 + torch_processes} processes", base, "pool.devices"))
    return rows


def _window_nbytes(data: Data) -> int:
    try:
        return data.window_nbytes()
    except DataError:  # damage is the stream's to tell
        return 0


def most_sums(run: RunPlan) -> int:
    """Returns the most sums of one step that the coordinator may hold at a time: more than one only where a worker has
    fewer gradient slots than a step has groups, so that parts of it may have to be added up early (I2)."""
    place, groups = run.place, run.groups
    if place is not None:  # a share is whole nodes of the tree, at its end too
        return most_nodes_between(len(groups.share(place.machine, place.machines)))
    return most_nodes(groups.per_step) if run.config.pool.gradient_slots < groups.per_step else 1


def shortage(rows: Sequence[Row], available: Available) -> str | None:
    """One line with the numbers and what to lower, None if it fits."""
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
    """Returns the table for people: a line for each part, then the sum and what there is."""
    total = Row("together", sum(row.nbytes for row in rows), "")
    there = Row("available", available.nbytes, f"{available.where}; a run may take {SHARE:.0%} of it")
    width = max(len(row.what) for row in (*rows, total))
    return "\n".join(f"{row.what:{width}}  {mib(row.nbytes):>12}  {row.keys}".rstrip() for row in (*rows, total, there))


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
        return RunMemory(segments, sizes, make_bells(len(run.planned.devices)))
    except OSError:
        RunMemory(segments).close()
        raise

"""Plans the memory that a run will take, part by part, with the settings that make each part smaller, and reserves the
shared memory before the first process gets any of it (I6).

Sizes of shared segments are exact, and so is the optimizer's state, which the planner has tried out. Processes and the
loader's windows are measured values. Activations of workers are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from pool.supervisor.resources.system_memory import Available, available_memory, format_mib

SHARE = 0.9  # share of the available memory that a run may take; the rest is for activations and other programs
_MIB = 1 << 20
_METRIC_FACTOR = 8  # bytes for each byte collected for metrics, which are computed in float64 with a few more arrays
_PROCESS = 60 * _MIB  # bytes of supervisor or feeder
_TORCH_PROCESS = 300 * _MIB
_CUDA_PROCESS = 1200 * _MIB


@dataclass(frozen=True)
class MemoryPart:
    """Holds one part of the memory plan."""

    what: str
    nbytes: int
    keys: str  # settings that make the part smaller


def memory_plan(run: RunPlan, sizes: Mapping[str, int]) -> list[MemoryPart]:
    """Returns the parts of the memory that a run will take. `sizes`: bytes of the shared segments, by name."""
    return [
        *_shared_parts(sizes),
        *_gradient_parts(run),
        *_state_parts(run),
        *_data_parts(run),
        _process_part(run),
    ]


def _shared_parts(sizes: Mapping[str, int]) -> Iterator[MemoryPart]:
    """Yields the shared segments. The gradients of all workers are one part."""
    keys = {
        RING: "data.batch_size, pool.ring_slots",
        SUMS: "data.train",
        **dict.fromkeys(SNAPSHOTS, "optimizer.name, model"),
    }
    gradients_nbytes = 0
    for name, nbytes in sizes.items():
        if name.startswith("gradients."):
            gradients_nbytes += nbytes
        else:
            yield MemoryPart(f"{name} (shared)", nbytes, keys.get(name, "model"))
    yield MemoryPart("gradients (shared)", gradients_nbytes, "pool.gradient_slots, pool.devices, model")


def _gradient_parts(run: RunPlan) -> Iterator[MemoryPart]:
    """Yields the memory of workers for sums of a group's gradients, and for gradients that are not rounded yet."""
    train, plan = run.config.train, run.planned.plan
    num_workers = len(run.planned.devices)
    if train.batches_per_group > 1:
        yield MemoryPart("sums of groups", num_workers * plan.nbytes, "train.batches_per_group")
    if train.gradient_dtype != "float32":
        num_cpu_workers = num_workers - _count_cuda(run.planned.devices)
        yield MemoryPart("gradients before they are rounded", num_cpu_workers * plan.nbytes, "model")


def _state_parts(run: RunPlan) -> Iterator[MemoryPart]:
    """Yields the memory of the coordinator for gradients and optimizer state."""
    planned = run.planned
    if planned.exchange.on_device:
        yield MemoryPart("copy of the device's state", planned.state_nbytes, "optimizer.name, model")
        return
    yield MemoryPart("sums of gradients", max_gradient_sums(run) * planned.plan.nbytes, "model")
    optimizer_nbytes = max(0, planned.state_nbytes - planned.plan.nbytes)
    yield MemoryPart("optimizer state", optimizer_nbytes, "optimizer.name, model")


def _data_parts(run: RunPlan) -> Iterator[MemoryPart]:
    """Yields the memory for metrics of validations, and for the windows in which streams are shuffled."""
    planned = run.planned
    collected_nbytes = run.validation.batches * planned.measured.collected_nbytes(len(planned.plans))
    if collected_nbytes > 0:
        yield MemoryPart("metrics", _METRIC_FACTOR * collected_nbytes, "train.validation_batches, data.batch_size")
    streams = list(run.data.values())
    if run.validation.ends:  # the last, smaller batch comes from another stream
        streams.append(run.data["validate"])
    windows_nbytes = sum(map(_window_nbytes, streams))
    if windows_nbytes > 0:
        yield MemoryPart("loader windows", windows_nbytes, "data.window_chunks")


def _process_part(run: RunPlan) -> MemoryPart:
    """Returns the memory that the processes take before they get any data: code, modules, torch, CUDA."""
    devices, exchange = run.planned.devices, run.planned.exchange
    # fork server and coordinator, and a process for each worker that is not in the coordinator's process
    num_torch = 2 + len(devices) - exchange.one_process
    coordinator_uses_cuda = _count_cuda(exchange.devices) > 0 and not exchange.one_process
    num_cuda = _count_cuda(devices) + coordinator_uses_cuda
    nbytes = 2 * _PROCESS + (num_torch - num_cuda) * _TORCH_PROCESS + num_cuda * _CUDA_PROCESS
    return MemoryPart(f"{2 + num_torch} processes", nbytes, "pool.devices")


def _count_cuda(devices: Sequence[str]) -> int:
    return sum(device.startswith("cuda:") for device in devices)


def _window_nbytes(data: Data) -> int:
    """Returns the bytes of the window in which a stream is shuffled. 0 for damaged data, which the stream reports
    later."""
    try:
        return data.window_nbytes()
    except DataError:
        return 0


def max_gradient_sums(run: RunPlan) -> int:
    """Returns the largest number of sums of gradients that the coordinator may hold at a time in one step.

    More than one is possible only where a worker has fewer gradient slots than a step has groups, so that parts of the
    step may have to be reduced early (I2), or where several machines compute the run.
    """
    rank, groups = run.rank, run.groups
    if rank is not None:  # a share of a step consists of whole nodes of the tree, at its end too
        return max_nodes_anywhere(len(groups.share(rank.machine, rank.num_machines)))
    if run.config.pool.gradient_slots < groups.groups_per_step:
        return max_nodes(groups.groups_per_step)
    return 1


def describe_shortage(parts: Sequence[MemoryPart], available: Available) -> str | None:
    """Checks that the run fits into the available memory. Returns a line with the numbers and what to lower, or None if
    it fits."""
    needed_nbytes = sum(part.nbytes for part in parts)
    if needed_nbytes <= SHARE * available.nbytes:
        return None
    largest = sorted(parts, key=lambda part: -part.nbytes)[:3]
    advice = ", ".join(f"{part.what} {format_mib(part.nbytes)}: lower {part.keys}" for part in largest)
    return (
        f"not enough memory: the run needs {format_mib(needed_nbytes)}, and {SHARE:.0%} of "
        f"{format_mib(available.nbytes)} may be taken ({available.where}); most are {advice}"
    )


def format_table(parts: Sequence[MemoryPart], available: Available) -> str:
    """Returns the memory plan as a table for people: a line for each part, then the sum and the available memory."""
    total = MemoryPart("together", sum(part.nbytes for part in parts), "")
    limit = MemoryPart("available", available.nbytes, f"{available.where}; a run may take {SHARE:.0%} of it")
    width = max(len(part.what) for part in (*parts, total))
    lines = [f"{part.what:{width}}  {format_mib(part.nbytes):>12}  {part.keys}" for part in (*parts, total, limit)]
    return "\n".join(line.rstrip() for line in lines)


def reserve_memory(run: RunPlan) -> RunMemory:
    """Creates and reserves the run's shared memory and its signals (eventfds).

    Raises ResourceError if there is not enough memory, RunError if the data differ from the checkpoint's, OSError if
    signals can't be made.
    """
    sizes = run.memory_map().sizes()
    parts = memory_plan(run, sizes)
    shortage = describe_shortage(parts, available_memory())
    if shortage is not None:
        raise ResourceError(shortage)
    saved_sums = {}
    if run.checkpoint is not None:
        saved_sums = data_files.load_saved_sums(run, saved_state(run.checkpoint), run.checkpoint)
    segments: dict[str, int] = {}
    check_chunk = _chunk_check(sum(sizes.values()))
    try:
        for name, nbytes in sizes.items():
            segments[name] = segment.create_segment(name, nbytes, check_chunk)
        write_chunk_checksums(segments[SUMS], run.planned.num_chunks, saved_sums)
    except ResourceError:
        RunMemory(segments).close()
        raise
    except OSError as error:
        RunMemory(segments).close()
        table = format_table(parts, available_memory())
        raise ResourceError(f"shared memory can't be made: {error.strerror}\n{table}") from None
    try:
        return RunMemory(segments, sizes, create_signals(len(run.planned.devices)))
    except OSError:
        RunMemory(segments).close()
        raise


def _chunk_check(total_nbytes: int) -> Callable[[int], None]:
    """Returns a function to call before each chunk of `total_nbytes` is reserved, with the chunk's bytes.

    The function raises ResourceError if the chunks that are not reserved yet do not fit any more. Other programs take
    memory too, and in a control group the kernel would kill this process instead of raising an error.
    """
    remaining = total_nbytes

    def check(nbytes: int) -> None:
        nonlocal remaining
        available = available_memory()
        if remaining > available.nbytes:
            raise ResourceError(
                f"not enough memory any more: {format_mib(remaining)} to reserve, "
                f"{format_mib(available.nbytes)} available"
            )
        remaining -= nbytes

    return check

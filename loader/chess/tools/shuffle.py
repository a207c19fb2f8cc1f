"""The work of `loader shuffle`, which writes all units (records, lines, games or chains) of files in a random order,
within a limit of memory.

Unit i of the input gets random number i of the seed. The units are sorted by these numbers, equal ones in the order of
the input, so the order depends only on the files and the seed. If memory is too small, units are first sorted into
buckets on disk by the leading bits of their numbers, and then in memory, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loader.chess.positions.format import Target
from loader.chess.positions.input import (
    SourceFile,
    estimate_bytes,
    ignore_progress,
    read_units_from,
    refuse_empty,
)
from loader.chess.positions.output import add_chunk_headers, check_output, compress
from loader.chess.positions.pgn_comments import NO_SETTINGS
from loader.chess.positions.units import Numbers, UnitBlock, concatenate
from loader.chess.tools.external_sort.memory import SMALLEST_MEMORY, anonymous_memory
from loader.chess.tools.external_sort.resumable_file import ResumableFile
from loader.chess.tools.external_sort.spill import BITS, BUCKETS, GATHERED, HEADER, Buckets, Spill, sort_by_draw
from loader.chess.tools.external_sort.unnamed_file import UnnamedFile
from loader.chess.tools.random_keys import RandomKeys
from loader.errors import DataError, InterruptedBySignalError, UsageError
from loader.files.delivery import deliver_new, is_delivered
from loader.files.fingerprint import fingerprint
from loader.files.journal import Settings, State
from loader.files.work_file import WorkFile, has_unfinished_work, unfinished_nbytes
from loader.formats.format import OnProgress

BLOCK = 4096  # units that are written at once, independent of --memory, so that no compressed byte depends on it
_READ_AHEAD = 2 << 20  # bytes of memory for a chunk that is read ahead, with its tables
_COPIES = 3  # copies of units in memory: as read, then in buckets with their draws; or a bucket and its sorted units
_SHIFT = 64 - BITS  # lowest bit of a draw that chooses the bucket on the first level

# Keys of the work's state.
_TABLES = "tables"  # offsets of the tables of the batches that are on disk
_NEXT = "next"  # file and chunk with which the work continues
_UNITS = "units"  # number of units on disk
_ENTRIES = "entries"  # number of entries on disk
_LEFT_OUT = "left out"  # what was left out of each source, by chunk
_START: State = {_TABLES: [], _NEXT: (0, 0), _UNITS: 0, _ENTRIES: 0, _LEFT_OUT: []}
_END = (-1, -1)  # value of _NEXT when all files are on disk

ReadBucket = Callable[[int], Iterator[UnitBlock]]  # yields the units of a bucket in the new order


class _Limits(NamedTuple):
    unit_nbytes: int  # bytes of units that memory may hold
    threads: int


class _SortedBuckets(NamedTuple):
    read_bucket: ReadBucket
    entries: int  # number of entries in all buckets


def shuffle(
    sources: Sequence[SourceFile],
    target: Target,
    output: Path,
    seed: int,
    memory: int,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Writes all units of the sources in a random order, and returns the number of their entries.

    Makes two passes over the data, each half of the progress: into buckets (OUT.part), then from each bucket in order
    to the output. Buckets are kept if the work is interrupted, and the same call continues with them. Raises DataError,
    OSError, UsageError.
    """
    refuse_empty(sources)
    limits = _divide_memory(memory, threads)
    num_bytes = sum(source.size for source in sources)
    output_nbytes = estimate_bytes(sources, target.format)
    spilled_nbytes = 0 if output_nbytes < limits.unit_nbytes else max(2 * output_nbytes - unfinished_nbytes(output), 0)
    if not has_unfinished_work(output):
        check_output(output, output_nbytes + spilled_nbytes)
    with WorkFile(output, _work_identity(sources, target, seed), _START) as work, _kept_work(work):
        if work.done:
            work.remove()
            return int(work.state[_ENTRIES])
        buckets = _sort_into_buckets(
            sources, target, work, seed, limits, lambda done, _: on_progress(done, 2 * num_bytes)
        )

        def report_bucket(bucket: int) -> None:
            on_progress(num_bytes + num_bytes * bucket // BUCKETS, 2 * num_bytes)

        def encode_blocks() -> Iterator[bytes]:
            blocks = _read_in_order(buckets.read_bucket, report_bucket)
            return compress(add_chunk_headers(blocks, target.format), target)

        if is_delivered(work, encode_blocks):
            work.remove()
            return buckets.entries
        check_output(output, 0)
        deliver_new(work, encode_blocks)
        return buckets.entries


def _work_identity(sources: Sequence[SourceFile], target: Target, seed: int) -> Settings:
    """Returns everything that the bytes of the output depend on, by the names of the options. An interrupted work is
    continued only if these are the same."""
    comments = next((source.format.comments for source in sources if source.format.comments is not None), NO_SETTINGS)
    return {
        "command": "shuffle",
        "files": fingerprint([source.data_file for source in sources if source.data_file is not None]),
        "format": f"{target.format.name} {target.packing or ''}".strip(),
        "--on-bad-data": sources[0].policy.on_bad_data,
        **{f"--pgn-{name}": value for name, value in asdict(comments).items() if value is not None},
        "--seed": seed,
    }


@contextmanager
def _kept_work(work: WorkFile) -> Iterator[None]:
    """Decides what remains when the work ends in an error. Removes the work file after an error in the data, which
    would come again, and when there is nothing to continue with. Else adds a note to the signal or the full disk that
    says how much is kept."""
    try:
        yield
    except DataError:
        work.remove()
        raise
    except (InterruptedBySignalError, OSError) as error:
        if work.end:
            error.add_note(f"{work.end:,} bytes of it are in {work.part}; the same command goes on")
        elif isinstance(error, InterruptedBySignalError):
            work.remove()
        raise


def _sort_into_buckets(
    sources: Sequence[SourceFile],
    target: Target,
    work: WorkFile,
    seed: int,
    limits: _Limits,
    on_progress: OnProgress,
) -> _SortedBuckets:
    """Sorts all units into buckets: in memory if all fit there, else in the work file. Continues after the batches that
    the work file has already."""
    file = ResumableFile(work)
    spill = Spill(file)
    for source, skipped in zip(sources, work.state[_LEFT_OUT], strict=False):
        source.skipped.add_json(skipped)
    for offset in work.state[_TABLES]:
        spill.read_table(offset)
    if tuple(work.state[_NEXT]) != _END:
        for batch, state in _read_batches(sources, target, work.state, seed, limits, on_progress):
            if state[_NEXT] == _END and not work.state[_TABLES]:
                return _SortedBuckets(partial(_read_bucket_in_memory, batch), state[_ENTRIES])
            spill.add(batch)
            skipped = [source.skipped.to_json() for source in sources]
            file.commit({**state, _TABLES: [*work.state[_TABLES], spill.write_table()], _LEFT_OUT: skipped})
    read_bucket = partial(_read_spilled_bucket, spill, work.path.parent, _SHIFT, limits.unit_nbytes)
    return _SortedBuckets(read_bucket, int(work.state[_ENTRIES]))


def _read_in_order(read_bucket: ReadBucket, report_bucket: Callable[[int], None]) -> Iterator[UnitBlock]:
    """Yields all units in the new order, in blocks of 4096 units. Calls `report_bucket` with the number of the bucket
    that is read."""
    pending: list[UnitBlock] = []
    missing = BLOCK
    for bucket in range(BUCKETS):
        for block in read_bucket(bucket):
            remaining = block
            while len(remaining) >= missing:
                yield concatenate([*pending, remaining.slice(0, missing)])
                remaining = remaining.slice(missing, len(remaining))
                pending, missing = [], BLOCK
                report_bucket(bucket)
            if len(remaining):
                pending.append(remaining)
                missing -= len(remaining)
    yield concatenate(pending)
    report_bucket(BUCKETS)


def _divide_memory(memory: int, threads: int) -> _Limits:
    """Divides the memory between reading threads, fewer if memory is short, and sorting. Raises UsageError if the
    memory is too little."""
    free = memory - anonymous_memory()
    threads = max(1, min(threads, free // (8 * _READ_AHEAD)))
    unit_nbytes = (free - (2 * threads + 1) * _READ_AHEAD - 3 * GATHERED) // _COPIES
    if unit_nbytes < 1 << 20:
        # More where this process has allocated much already.
        enough = max(SMALLEST_MEMORY, memory + _COPIES * ((2 << 20) - unit_nbytes))
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {enough >> 20} MiB or more")
    return _Limits(unit_nbytes, threads)


def _read_batches(
    sources: Sequence[SourceFile],
    target: Target,
    start: State,
    seed: int,
    limits: _Limits,
    on_progress: OnProgress,
) -> Iterator[tuple[Buckets, State]]:
    """Yields batches of units sorted into buckets, each as large as memory allows, and the state of the work after
    each. Begins after the units that are counted in the state `start`."""
    first_file, first_chunk = start[_NEXT]
    state = dict(start)
    random_keys = RandomKeys(seed, state[_UNITS])
    blocks: list[tuple[UnitBlock, Numbers]] = []
    batch_nbytes, num_bytes = 0, sum(source.size for source in sources)
    bytes_of_done_files = sum(source.size for source in sources[:first_file])
    for file, source in enumerate(sources[first_file:], first_file):
        for block, next_chunk in read_units_from(source, target.format, limits.threads, first_chunk):
            block_nbytes = len(block.bytes) + HEADER * len(block)
            if blocks and batch_nbytes + block_nbytes > limits.unit_nbytes:
                yield _sort_blocks(blocks), dict(state)
                batch_nbytes = 0
            blocks.append((block, random_keys.next(len(block))))
            batch_nbytes += block_nbytes
            state |= {
                _NEXT: (file, next_chunk),
                _UNITS: state[_UNITS] + len(block),
                _ENTRIES: state[_ENTRIES] + int(block.entries.sum()),
            }
            on_progress(bytes_of_done_files + source.offset(next_chunk), num_bytes)
        source.check_end()
        bytes_of_done_files += source.size
        first_chunk = 0
    yield _sort_blocks(blocks), {**state, _NEXT: _END}


def _sort_blocks(blocks: list[tuple[UnitBlock, Numbers]]) -> Buckets:
    """Sorts the units of `blocks` into buckets, and empties the list to free its memory."""
    batch = Buckets.of_blocks(blocks, _SHIFT)
    blocks.clear()
    return batch


def _read_spilled_bucket(spill: Spill, folder: Path, shift: int, max_nbytes: int, bucket: int) -> Iterator[UnitBlock]:
    """Yields the units of a bucket on disk in the order of their random numbers. A bucket of more than `max_nbytes`
    bytes is first divided into finer buckets, by the next bits of the numbers."""
    if spill.size(bucket) <= max_nbytes or shift == 0:
        yield from sort_by_draw(spill.read(bucket))
        return
    with UnnamedFile(folder) as file:
        finer = Spill(file)
        for drawn in spill.read_batches(bucket, max_nbytes):
            finer.add(Buckets.of_drawn(drawn, shift - BITS))
        for finer_bucket in range(BUCKETS):
            yield from _read_spilled_bucket(finer, folder, shift - BITS, max_nbytes, finer_bucket)


def _read_bucket_in_memory(batch: Buckets, bucket: int) -> Iterator[UnitBlock]:
    """Yields the units of a bucket in memory in the order of their random numbers."""
    return sort_by_draw(batch.drawn(bucket))

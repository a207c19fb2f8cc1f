"""The whole loader: binpack file in, batches in slots out, with nobody behind it.

The file is made here: rotated copies of one real file, at least 32 MiB, so that no two chunks decoded together are
alike. Measured from one epoch's first batch to another's, so that every batch stands for one batch's share of
decoding, filters, shuffling, extraction of both perspectives, transposition and ordering by bucket. All cases take
turns; medians. `wall` is what came out in the time that passed; `cpu` is what the threads' processor time allows,
which other work on the machine disturbs less. Prints a table of cases, the stages, the bars and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import select
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rotated import REAL, SAMPLE, SHARED, rotated_copies
from loader import _native
from loader.chess.cli.throughput import NUM_SLOTS, bytes_used
from loader.chess.filters import FilterConfig
from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.stream.interface import Filled
from loader.stream.native_stream import NativeStream
from loader.stream.schema import SparseBatch
from loader.stream.slots import Slot, allocate_slots
from loader.stream.sources import data_config

FILTERS = FilterConfig(skip_captures=True, skip_in_check=True, win_draw_loss=True)
MIRRORED10 = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)
INPUTS: dict[str, dict[str, Any]] = {  # settings in data.chess
    "HalfKAv2_hm": {"features": "HalfKAv2_hm"},
    "HalfKAv2_hm^": {"features": "HalfKAv2_hm^"},
    "SFNNv16": {"features": "SFNNv16"},
    "768": {"features": "chess768", "output_buckets": "single"},
    "768x10": {"features": "chess768", "king_buckets": MIRRORED10, "output_buckets": "material_count_8"},
    "768x10^": {"features": "chess768^", "king_buckets": MIRRORED10, "output_buckets": "material_count_8"},
}
STAGES = ("decode", "shuffle", "build")
PIECES, THREATS = "HalfKAv2_hm", "SFNNv16"


@dataclass(frozen=True)
class Case:
    threads: int
    level: str
    filters: bool
    inputs: str = PIECES  # of INPUTS


@dataclass(frozen=True)
class Rates:
    """Million a second; bytes and nanoseconds per position of a batch."""

    read_wall: float
    batched_wall: float
    read_cpu: float
    batched_cpu: float
    bytes_per_position: float
    stages: tuple[float, ...]


@dataclass(frozen=True)
class Bar:
    name: str
    required: str
    measured: float
    met: bool


def take(stream: NativeStream, ready: select.poll) -> Filled:
    while (filled := stream.take()) is None:
        ready.poll()
    return filled


def first_of_epoch(stream: NativeStream, ready: select.poll, epoch: int) -> Filled:
    """Takes batches and gives them back until one begins in that epoch, which is kept."""
    while (filled := take(stream, ready)).cursor.epoch < epoch:
        stream.give(filled.slot)
    return filled


def measure(case: Case, file: Path, epochs: int) -> Rates:
    _native.set_simd_level(case.level)
    filters = FILTERS if case.filters else FilterConfig(skip_no_score=False)
    config = data_config(threads=case.threads, chess={**INPUTS[case.inputs], "filters": filters})
    with ChessSource().open(config, identify([file]), seed=1) as stream:
        slots: Sequence[Slot] = allocate_slots(stream.schema, NUM_SLOTS)
        stream.attach(slots)
        for slot in range(NUM_SLOTS):
            stream.give(slot)
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLIN)
        first = first_of_epoch(stream, ready, 1)
        began, read, busy = time.monotonic(), stream.progress()[0], stream.processor_time()
        written = bytes_used(SparseBatch.view(stream.schema, slots[first.slot]))
        stream.give(first.slot)
        last = first_of_epoch(stream, ready, 1 + epochs)
        seconds = time.monotonic() - began
        entries = stream.progress()[0] - read
        spent = [after - before for after, before in zip(stream.processor_time(), busy, strict=True)]
    positions = (last.batch - first.batch) * config.batch_size
    cpu_seconds = sum(spent) / case.threads
    return Rates(
        read_wall=1e-6 * entries / seconds,
        batched_wall=1e-6 * positions / seconds,
        read_cpu=1e-6 * entries / cpu_seconds,
        batched_cpu=1e-6 * positions / cpu_seconds,
        bytes_per_position=written / config.batch_size,
        stages=tuple(1e9 * stage / positions for stage in spent),
    )


def median(rates: Sequence[Rates]) -> Rates:
    middle = {name: statistics.median(getattr(one, name) for one in rates) for name in list(vars(rates[0]))[:-1]}
    stages = tuple(statistics.median(values) for values in zip(*(one.stages for one in rates), strict=True))
    return replace(rates[0], stages=stages, **middle)


def bars(medians: dict[Case, Rates]) -> list[Bar]:
    widest = _native.simd_levels()[-1]
    off, filtered = medians[Case(2, widest, False)], medians[Case(2, widest, True)]
    threats = [medians[Case(2, widest, on, THREATS)].batched_cpu for on in (False, True)]
    by_pieces = [
        rate / medians[Case(2, widest, on)].batched_cpu for rate, on in zip(threats, (False, True), strict=True)
    ]
    ratio = filtered.read_wall / off.batched_wall
    found = [
        Bar(f"{widest}, 2 threads: million positions/s", ">= 25", off.batched_wall, off.batched_wall >= 25),
        Bar("the same, of processor time", ">= 25", off.batched_cpu, off.batched_cpu >= 25),
        Bar("bytes a position", "<= 200", off.bytes_per_position, off.bytes_per_position <= 200),
        Bar("filters on: entries read, times that", ">= 1.3", ratio, ratio >= 1.3),
        *(
            Bar(f"{THREATS} by {PIECES}, filters {name}, of processor time", ">= 0.4", share, share >= 0.4)
            for name, share in zip(("off", "on"), by_pieces, strict=True)
        ),
    ]
    if (narrower := medians.get(Case(2, "avx2", False))) is not None:
        rate = narrower.batched_wall
        found.insert(2, Bar("avx2, 2 threads: million positions/s", ">= 12", rate, rate >= 12))
    return found


def show(medians: dict[Case, Rates], found: Sequence[Bar], title: str) -> None:
    table = Table(
        "inputs", "threads", "code", "filters", "read M/s", "batched M/s", "read M/s cpu", "batched M/s cpu", "bytes",
        *(f"{stage} ns" for stage in STAGES), title=title,
    )  # fmt: skip
    for case, rates in medians.items():
        numbers = [rates.read_wall, rates.batched_wall, rates.read_cpu, rates.batched_cpu, rates.bytes_per_position]
        row = [case.inputs, str(case.threads), case.level, "on" if case.filters else "off"]
        table.add_row(*row, *(f"{number:.1f}" for number in [*numbers, *rates.stages]))
    Console().print(table)
    verdicts = Table("bar", "required", "measured", "")
    for bar in found:
        verdicts.add_row(bar.name, bar.required, f"{bar.measured:.2f}", "met" if bar.met else "not met")
    Console().print(verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="a binpack file to copy; without it ../shared's or the bundled sample"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1, help="measured, after one that is not")
    parser.add_argument("--levels", nargs="+", choices=_native.simd_levels(), default=_native.simd_levels()[::-1])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--inputs",
        nargs="*",
        choices=[*INPUTS],
        default=["768", "768x10", "768x10^"],
        help=f"besides {PIECES} and {THREATS}",
    )
    arguments = parser.parse_args()
    source: Path = arguments.data or REAL
    if source == SAMPLE:
        print(f"{SHARED} is not there: using the bundled sample, other figures are not comparable")
    cases = [Case(n, level, on) for on in (False, True) for level in arguments.levels for n in arguments.threads]
    cases += [Case(n, arguments.levels[0], on, THREATS) for on in (False, True) for n in arguments.threads]
    cases += [Case(max(arguments.threads), arguments.levels[0], False, inputs) for inputs in arguments.inputs]
    results: dict[Case, list[Rates]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rotated.binpack"
        rotated_copies(source, file)
        size = file.stat().st_size
        for _ in range(arguments.repeats):
            for case in cases:
                results[case].append(measure(case, file, arguments.epochs))
    medians = {case: median(rates) for case, rates in results.items()}
    widest = _native.simd_levels()[-1]
    complete = {Case(2, widest, on, f) for on in (False, True) for f in (PIECES, THREATS)} <= set(medians)
    found = bars(medians) if complete else []
    show(medians, found, f"batches of 16384, {source.name} copied to {size:,} bytes")
    rows = [{**vars(case), **vars(rates)} for case, rates in medians.items()]
    print(
        json.dumps({"benchmark": "loader", "file_bytes": size, "results": rows, "bars": [vars(bar) for bar in found]})
    )


if __name__ == "__main__":
    main()

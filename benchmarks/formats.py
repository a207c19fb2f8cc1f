"""Files of chess positions in every format: read, shuffled and made batches of, for chess768.

The same positions in all files: those of a binpack file of at least 32 MiB (`benchmarks/rotated.py`), converted. All
formats take turns; medians, and each format's rate by binpack's. Games need no more than to be played; text is parsed.

For comparison, on another machine with 16 threads, bullet's loaders: 13.4 M positions/s of a binpack, 13.5 of
viriformat, with its own filters and a first layer of 32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.loader import INPUTS, Case, Rates, measure, median
from benchmarks.rotated import REAL, rotated_copies
from loader import _native
from loader.chess.positions.input import open_sources

FORMATS = {  # and the endings of their names
    "binpack": ".binpack",
    "bulletformat": ".bf",
    "viriformat": ".viri",
    "marlinformat": ".marlin",
    "packedsfen": ".psv",
    "montyvalue": ".montyvalue",
    "text": ".txt",
}
NEEDED = {"bulletformat": 1.0, "viriformat": 1.0}  # times binpack's rate of batches
INPUT = "768"


def converted(source: Path, name: str, target: Path) -> None:
    (file,), writer = open_sources([source]), getattr(_native, name)().make_writer()
    with target.open("wb") as opened:
        for chunk in range(file.num_chunks):
            file.copy_to(chunk, writer)
            opened.write(writer.take())
        writer.finish()
        opened.write(writer.take())


def show(medians: dict[str, Rates], ratios: dict[str, float], sizes: dict[str, int], threads: int) -> None:
    table = Table(
        "format", "MiB", "batched M/s", "M/s cpu", "by binpack, cpu", "decode ns", "shuffle ns", "build ns", ""
    )
    for name, rates in medians.items():
        needed = NEEDED.get(name)
        verdict = "" if needed is None else f">= {needed}: {'met' if ratios[name] >= needed else 'not met'}"
        numbers = [f"{number:.1f}" for number in (rates.batched_wall, rates.batched_cpu)]
        stages = [f"{stage:.1f}" for stage in rates.stages]
        table.add_row(name, f"{sizes[name] >> 20:,}", *numbers, f"{ratios[name]:.2f}", *stages, verdict)
    table.title = f"{INPUTS[INPUT]['features']}, {threads} threads"
    Console().print(table)


def ratio(rates: Sequence[Rates], base: Sequence[Rates]) -> float:
    """Median of those of one turn each: what else the machine does changes slowly."""
    return statistics.median(one.batched_cpu / other.batched_cpu for one, other in zip(rates, base, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file to copy")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1, help="measured, after one that is not")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--formats", nargs="+", choices=[*FORMATS], default=[*FORMATS])
    arguments = parser.parse_args()
    case = Case(arguments.threads, _native.simd_levels()[-1], False, INPUT)
    names = dict.fromkeys(["binpack", *arguments.formats])
    results: dict[str, list[Rates]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"positions{FORMATS[name]}" for name in names}
        rotated_copies(arguments.data, files["binpack"])
        for name in names:
            if name != "binpack":
                converted(files["binpack"], name, files[name])
        sizes = {name: file.stat().st_size for name, file in files.items()}
        for _ in range(arguments.repeats):
            for name in names:
                results[name].append(measure(case, files[name], arguments.epochs))
    medians = {name: median(rates) for name, rates in results.items()}
    ratios = {name: ratio(rates, results["binpack"]) for name, rates in results.items()}
    show(medians, ratios, sizes, arguments.threads)
    rows = [
        {"format": name, "bytes": sizes[name], "by_binpack": ratios[name], **vars(rates)}
        for name, rates in medians.items()
    ]
    print(json.dumps({"benchmark": "formats", "inputs": INPUT, "threads": arguments.threads, "results": rows}))


if __name__ == "__main__":
    main()

"""Svmlight text, one thread: the loader against scikit-learn's load_svmlight_file, on the same file in the same run.

`read`: the file becomes rows. `stream`: the same as batches in slots, shuffled and transposed, with one thread; from
one epoch's first batch to the next one's. Both take turns with scikit-learn; medians. Three files: click data (one
value of 1 for each of 39 features), short real numbers, and those of 17 digits. Needs scikit-learn (`pip install
scikit-learn`), which is no requirement of the project.
"""

from __future__ import annotations

import argparse
import json
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from loader import _native
from loader.files.identity import identify
from loader.rows.fields import row_shape
from loader.rows.source import RowsSource
from loader.stream.config import DataConfig
from loader.stream.native_stream import NativeStream
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config

FEATURES = 1 << 20
REQUIRED = 5.0  # times scikit-learn
ROWS = {"clicks": 60_000, "short numbers": 60_000, "17 digits": 40_000}
CONFIG = data_config(source="rows", threads=1, batch_size=8192, rows={"num_features": FEATURES, "max_active": 64})


def write_file(path: Path, kind: str, rows: int) -> None:
    random = np.random.default_rng(1)
    with path.open("w") as file:
        for _ in range(rows):
            numbers = np.unique(random.integers(0, FEATURES, 39))
            if kind == "clicks":
                pairs = [f"{number}:1" for number in numbers]
            else:
                digits = ".4g" if kind == "short numbers" else ".17g"
                values = random.normal(size=len(numbers))
                pairs = [f"{number}:{value:{digits}}" for number, value in zip(numbers, values, strict=True)]
            file.write(f"{random.integers(0, 2)} {' '.join(pairs)}\n")


def read(path: Path) -> int:
    reader = _native.SvmlightReader([_native.LineFile(path)])
    shape = row_shape(CONFIG.settings)
    return sum(_native.count_rows(reader, chunk, shape) for chunk in range(reader.num_chunks))


def first_of_epoch(stream: NativeStream, ready: select.poll, epoch: int) -> None:
    while True:
        while (filled := stream.take()) is None:
            ready.poll()
        stream.give(filled.slot)
        if filled.cursor.epoch >= epoch:
            return


def stream_epoch(path: Path, config: DataConfig = CONFIG) -> float:
    """Seconds of an epoch, after one that is not measured."""
    with RowsSource().open(config, identify([path]), seed=1) as stream:
        stream.attach(allocate_slots(stream.schema, 4))
        for slot in range(4):
            stream.give(slot)
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLIN)
        first_of_epoch(stream, ready, 1)
        began = time.monotonic()
        first_of_epoch(stream, ready, 2)
        return time.monotonic() - began


def seconds_of(function: Callable[[], object]) -> float:
    began = time.monotonic()
    function()
    return time.monotonic() - began


def measure(path: Path, repeats: int, load: Callable[..., object]) -> dict[str, float]:
    """Medians of MB/s."""
    found: dict[str, list[float]] = {"scikit-learn": [], "read": [], "stream": []}
    for _ in range(repeats):
        found["scikit-learn"].append(seconds_of(lambda: load(str(path), dtype=np.float32, zero_based=True)))
        found["read"].append(seconds_of(lambda: read(path)))
        found["stream"].append(stream_epoch(path))
    size = 1e-6 * path.stat().st_size
    return {name: size / statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        sys.exit("scikit-learn is not installed: pip install scikit-learn")
    table = Table("file", "MB", "scikit-learn MB/s", "read MB/s", "times", "stream MB/s", "times", "bar", "")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, rows in ROWS.items():
            path = Path(folder) / "rows.svm"
            write_file(path, kind, rows)
            rates = measure(path, arguments.repeats, load_svmlight_file)
            times = {name: rates[name] / rates["scikit-learn"] for name in ("read", "stream")}
            met = times["read"] >= REQUIRED
            results.append({"file": kind, "bytes": path.stat().st_size, **rates, "times": times, "met": met})
            table.add_row(
                kind, f"{1e-6 * path.stat().st_size:.0f}", f"{rates['scikit-learn']:.0f}", f"{rates['read']:.0f}",
                f"{times['read']:.1f}", f"{rates['stream']:.0f}", f"{times['stream']:.1f}", f">= {REQUIRED:.0f}",
                "met" if met else "not met",
            )  # fmt: skip
    Console().print(table)
    print(json.dumps({"benchmark": "svmlight", "results": results}))


if __name__ == "__main__":
    main()

"""Criteo's click logs as text, one thread: the loader against pyarrow's CSV reader and the package xxhash.

Both read the same file in the same run and turn 26 columns of categories into features by XXH64: the loader into rows
(`read`), or into shuffled batches in slots (`stream`, from one epoch's first batch to the next one's). pyarrow cuts the
columns with one thread, each is made a dictionary, and each of its texts is hashed once. They take turns; medians.
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
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from loader import _native
from loader.files.identity import identify
from loader.rows.columns import LAYOUTS
from loader.rows.fields import row_shape
from loader.rows.readers import open_readers
from loader.rows.source import RowsSource
from loader.stream.native_stream import NativeStream
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config

FEATURES = 1_000_000
REQUIRED = 3.0  # times pyarrow
ROWS = 200_000
NUMBERS = tuple(f"I{number}" for number in range(1, 14))
CONFIG = data_config(
    source="rows", format="csv", threads=1, batch_size=8192,
    rows={"num_features": FEATURES, "label": "binary", "values": False, "dense": list(NUMBERS),
          "columns": {"layout": "criteo"}},
)  # fmt: skip


def write_file(path: Path) -> None:
    """A third of the numbers and a twentieth of the categories are missing; low categories are frequent."""
    random = np.random.default_rng(1)
    with path.open("w") as file:
        for label in random.integers(0, 2, ROWS):
            numbers = random.integers(0, 1500, 13)
            categories = (1e6 * random.random(26) ** 3).astype(np.int64) * 2654435761 % (1 << 32)
            columns = [str(label), *("" if number < 500 else str(number) for number in numbers)]
            columns += ["" if i % 20 == number else f"{number:08x}" for i, number in enumerate(categories)]
            file.write("\t".join(columns) + "\n")


def read(path: Path) -> int:
    (reader,) = open_readers(CONFIG, identify([path]))
    native: Any = reader
    shape = row_shape(CONFIG.settings)
    return sum(_native.count_rows(native.native, chunk, shape) for chunk in range(native.num_chunks))


def read_by_pyarrow(path: Path) -> int:
    import pyarrow.compute
    import pyarrow.csv
    import xxhash

    names = LAYOUTS["criteo"].names
    types = {name: pyarrow.string() if name.startswith("C") else pyarrow.float32() for name in names}
    table = pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types),
    )
    for seed, name in enumerate(names[14:]):
        column = table[name].combine_chunks().dictionary_encode()
        hashes = [xxhash.xxh64_intdigest(text.encode(), seed) % FEATURES for text in column.dictionary.to_pylist()]
        np.asarray(hashes)[column.indices.to_numpy()]
    for name in ("label", *NUMBERS):
        pyarrow.compute.fill_null(table[name], 0.0).to_numpy()
    return int(table.num_rows)


def stream_epoch(path: Path) -> float:
    """Measures the seconds of an epoch, after one that is not measured."""
    with RowsSource().open(CONFIG, identify([path]), seed=1) as stream:
        stream.attach(allocate_slots(stream.schema, 4))
        for slot in range(4):
            stream.give(slot)
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLIN)
        wait_for_epoch(stream, ready, 1)
        return seconds_of(lambda: wait_for_epoch(stream, ready, 2))


def wait_for_epoch(stream: NativeStream, ready: select.poll, epoch: int) -> None:
    """Reads batches up to the first one of the epoch."""
    while True:
        while (filled := stream.take()) is None:
            ready.poll()
        stream.give(filled.slot)
        if filled.cursor.epoch >= epoch:
            return


def seconds_of(function: Callable[[], object]) -> float:
    began = time.monotonic()
    function()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    try:
        import pyarrow.csv  # noqa: F401
        import xxhash  # noqa: F401
    except ImportError as error:
        sys.exit(f"{error.name} is not installed: pip install {error.name}")
    times: dict[str, list[float]] = {"pyarrow": [], "read": [], "stream": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day_0"
        write_file(path)
        size = 1e-6 * path.stat().st_size
        for _ in range(arguments.repeats):
            times["pyarrow"].append(seconds_of(lambda: read_by_pyarrow(path)))
            times["read"].append(seconds_of(lambda: read(path)))
            times["stream"].append(stream_epoch(path))
    table = Table("Criteo's layout", "rows/s", "MB/s", "times pyarrow")
    seconds = {name: statistics.median(found) for name, found in times.items()}
    for name, found in seconds.items():
        table.add_row(name, f"{ROWS / found:,.0f}", f"{size / found:,.0f}", f"{seconds['pyarrow'] / found:.1f}")
    Console().print(table)
    ratio = seconds["pyarrow"] / seconds["read"]
    print(json.dumps({"benchmark": "csv_files", "seconds": seconds, "times": ratio, "met": ratio >= REQUIRED}))


if __name__ == "__main__":
    main()

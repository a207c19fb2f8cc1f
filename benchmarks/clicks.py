"""Clicks from svmlight files: the whole pool against the obvious loop in plain torch, on the same files.

A factorization machine whose one table has a million rows x 16 over 39 fields, in batches of 8,192, with Adam that
changes touched rows only. Fields have 10 to 300,000 features; low numbers are far more frequent, as in real data.

The plain loop: torch.nn.EmbeddingBag(sparse=True), SparseAdam, and a DataLoader whose two workers read the files
through scikit-learn's load_svmlight_file, shuffle each and slice it into batches. It is given torch's fastest number of
threads, one or two. The pool: its processes as a user starts them, one CPU worker. Both take turns; medians. Beside
them, what bounds each: the reading alone, and the training alone on batches that are ready in memory. Prints a table
and one line of JSON. Needs scikit-learn (`pip install scikit-learn`), which is no requirement of the project.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.endless_run import endless_run, times
from benchmarks.pace import enough, mean_rate
from benchmarks.rotated import ROOT

FIELDS, FEATURES, WIDTH, BATCH = 39, 1_000_000, 16, 8192
FILES, ROWS = 6, 8 * BATCH  # of each file
SKEW = 4.0  # feature = size of the field * u^SKEW
WARM_UP = 2.0  # seconds that are not counted
WANTED = 10.0  # times the plain loop
LEARNING_RATE = 1e-3

Batch = tuple[Tensor, Tensor, Tensor]  # features, int64; where each sample's begin; labels


def field_borders() -> np.ndarray[Any, Any]:
    """Where each field's features begin, and the end: sizes grow evenly in their logarithm."""
    sizes = np.geomspace(10, 300_000, FIELDS)
    return np.concatenate([[0], np.cumsum(sizes * FEATURES / sizes.sum())]).astype(np.int64)


def write_files(folder: Path) -> None:
    borders = field_borders()
    for number in range(FILES):
        random = np.random.default_rng(number)
        drawn = borders[:-1] + (np.diff(borders) * random.random((ROWS, FIELDS)) ** SKEW).astype(np.int64)
        labels = random.integers(0, 2, ROWS)
        with (folder / f"clicks-{number}.svm").open("w", encoding="ascii") as file:
            for label, features in zip(labels.tolist(), drawn.tolist(), strict=True):
                file.write(f"{label} {' '.join(f'{feature}:1' for feature in features)}\n")


class Files(IterableDataset[Batch]):
    """Each worker reads its share of the files, again and again."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.svm"))

    def __iter__(self) -> Iterator[Batch]:
        from sklearn.datasets import load_svmlight_file

        worker = get_worker_info()
        share = self._files if worker is None else self._files[worker.id :: worker.num_workers]
        random = np.random.default_rng()
        for path in itertools.cycle(share):
            rows, labels = load_svmlight_file(str(path), n_features=FEATURES, zero_based=True, dtype=np.float32)
            order = random.permutation(len(labels))
            for begin in range(0, len(order) - BATCH + 1, BATCH):
                chosen = order[begin : begin + BATCH]
                batch = rows[chosen]
                yield (
                    torch.from_numpy(batch.indices.astype(np.int64)),
                    torch.from_numpy(batch.indptr[:-1].astype(np.int64)),
                    torch.from_numpy(labels[chosen].astype(np.float32)),
                )


def batches(case: str, folder: Path) -> Iterator[Batch]:
    if case == "train only":
        return itertools.cycle(itertools.islice(Files(folder), 16))
    return iter(DataLoader(Files(folder), batch_size=None, num_workers=2, prefetch_factor=4))


def plain_rate(case: str, folder: Path, seconds: float, threads: int) -> float:
    """Samples a second of the plain loop; of `case` only a part."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    table = nn.EmbeddingBag(FEATURES, WIDTH, mode="sum", sparse=True)
    nn.init.normal_(table.weight, std=0.05)
    bias = nn.Parameter(torch.zeros(1))
    optimizers = [
        torch.optim.SparseAdam(table.parameters(), lr=LEARNING_RATE),
        torch.optim.Adam([bias], lr=LEARNING_RATE),
    ]
    moments = []
    for features, offsets, labels in batches(case, folder):
        if case != "read only":
            for optimizer in optimizers:
                optimizer.zero_grad()
            total = table(features, offsets)
            scores = bias + total[:, 0] + 0.5 * total[:, 1:].square().sum(dim=1)
            functional.binary_cross_entropy_with_logits(scores, labels).backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
        moments.append(time.perf_counter())
        if enough(moments, WARM_UP, seconds):
            return BATCH * mean_rate(moments, WARM_UP)
    raise AssertionError


def pool_rate(folder: Path, seconds: float) -> tuple[float, dict[str, float]]:
    """Samples a second of a run of the pool, and the numbers of its last step."""
    settings = f"""
task = "clicks"
run.sinks = []
data.source = "rows"
data.train = ["{folder}/clicks-*.svm"]
data.batch_size = {BATCH}
data.rows.num_features = {FEATURES}
data.rows.max_active = {FIELDS}
data.rows.values = false
data.rows.label = "binary"
model.kind = "factorization"
model.rank = {WIDTH - 1}
model.fields = {{ features = {FEATURES} }}
optimizer.name = "pool.optim.SparseAdam"
optimizer.args.lr = {LEARNING_RATE}
train.batches_per_step = 1
pool.devices = ["cpu"]
pool.threads = 1
pool.bucket_mb = 100
"""
    with endless_run(settings) as run:
        records = run.until(lambda records: enough(times(records), WARM_UP, seconds))
    last = {key: value for key, value in records[-1].items() if isinstance(value, int | float)}
    return BATCH * mean_rate(times(records), WARM_UP), last


def plain(case: str, folder: Path, seconds: float) -> float:
    """The better of one and two threads, each in a process of its own."""
    found = []
    for threads in (1, 2):
        command = [sys.executable, "-m", "benchmarks.clicks", f"--plain={case}/{threads}", f"--folder={folder}"]
        done = subprocess.run(
            [*command, f"--seconds={seconds}"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        found.append(float(done.stdout))
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--plain", help=argparse.SUPPRESS)  # CASE/THREADS, in a process of its own
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plain:
        case, threads = arguments.plain.split("/")
        print(plain_rate(case, arguments.folder, arguments.seconds, int(threads)))
        return
    if find_spec("sklearn") is None:
        print("clicks: left out, since scikit-learn is not installed: pip install scikit-learn")
        return
    rates: dict[str, list[float]] = {"plain torch": [], "its reading alone": [], "its training alone": [], "pool": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_files(folder)
        for _ in range(arguments.repeats):
            rates["plain torch"].append(plain("whole", folder, arguments.seconds))
            rates["its reading alone"].append(plain("read only", folder, arguments.seconds))
            rates["its training alone"].append(plain("train only", folder, arguments.seconds))
            rate, last = pool_rate(folder, arguments.seconds)
            rates["pool"].append(rate)
    table = Table("", "samples a second", title=f"{FIELDS} fields, {FEATURES:,} rows x {WIDTH}, batches of {BATCH:,}")
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, median in medians.items():
        table.add_row(name, f"{median:,.0f}")
    ratio = medians["pool"] / medians["plain torch"]
    table.add_row("pool / plain torch", f"{ratio:.1f} (wanted {WANTED:.0f})")
    Console(width=100).print(table)
    print(json.dumps({"benchmark": "clicks", "results": medians, "ratio": ratio, "last_step": last}))


if __name__ == "__main__":
    main()

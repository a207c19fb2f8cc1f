"""Small models over a large sparse input: the whole pool against one plain torch process.

100,000 random rows of 25 features out of 1,000,000, in batches of 2,000: a logistic regression, and an MLP of 32, 16
and 1 outputs. The plain process has all batches ready in memory, and the better of one and two threads (two are slower
where others want the cores): torch.nn.EmbeddingBag with fused Adam, and with sparse gradients and SparseAdam (fused
Adam for the dense layers). The pool: its processes as a user starts
them, a source with the same batches ready in memory (`small_source`), one CPU worker, pool.optim.SparseAdam and
pool.optim.Adam. All take turns; medians over the turns. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

from benchmarks.endless_run import endless_run, times
from benchmarks.pace import enough, mean_rate
from benchmarks.rotated import ROOT
from benchmarks.small_model import SmallModel
from benchmarks.small_source import SmallConfig, draw

BATCH = 2000
WARM_UP = 1.0  # seconds that are not counted
MODELS: dict[str, Sequence[int]] = {"logistic regression": [], "MLP 32-16-1": [32, 16]}
WANTED = 1.5  # times the faster of the plain ones
PLAIN = ("torch, Adam(fused)", "torch, SparseAdam")
POOL = {"pool, SparseAdam": "pool.optim.SparseAdam", "pool, Adam": "pool.optim.Adam"}


def pool_rate(layers: Sequence[int], optimizer: str, num_features: int, seconds: float, threads: int) -> float:
    """Rows a second of a run of the pool."""
    settings = f"""
task = "benchmarks.small_task"
data.source = "benchmarks.small_source:SmallSource"
data.small_source.num_features = {num_features}
data.batch_size = {BATCH}
model.num_features = {num_features}
model.layers = {list(layers)}
optimizer.name = "{optimizer}"
train.batches_per_step = 1
pool.devices = ["cpu"]
pool.threads = {threads}
pool.bucket_mb = 1000
"""
    with endless_run(settings) as run:
        records = run.until(lambda records: enough(times(records), WARM_UP, seconds))
    return BATCH * mean_rate(times(records), WARM_UP)


def plain_rate(layers: Sequence[int], case: str, num_features: int, seconds: float, threads: int) -> float:
    """Rows a second of a loop in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    settings = SmallConfig(num_features=num_features)
    batches = []
    for k in range(settings.num_batches):
        batches.append([torch.from_numpy(part) for part in draw(settings, BATCH, 42, k)])
    sparse = "SparseAdam" in case
    table = nn.EmbeddingBag(num_features, [*layers, 1][0], mode="sum", sparse=sparse)
    nn.init.uniform_(table.weight, -1e-3, 1e-3)
    model = SmallModel(table, layers)
    optimizers: list[torch.optim.Optimizer] = []
    if sparse:
        optimizers.append(torch.optim.SparseAdam(table.parameters(), lr=1e-3))
    if dense := [*(model.rest if sparse else model).parameters()]:
        optimizers.append(torch.optim.Adam(dense, lr=1e-3, fused=True))
    moments = []
    for features, label in itertools.cycle(batches):
        for optimizer in optimizers:
            optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(model(features), label).backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()
        moments.append(time.perf_counter())
        if enough(moments, WARM_UP, seconds):
            return BATCH * mean_rate(moments, WARM_UP)
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1, help="of the pool's worker")
    parser.add_argument("--plain", help=argparse.SUPPRESS)  # MODEL/CASE/THREADS, in a process of its own
    arguments = parser.parse_args()
    if arguments.plain:
        model, case, threads = arguments.plain.split("/")
        print(plain_rate(MODELS[model], case, arguments.features, arguments.seconds, int(threads)))
        return
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(arguments.repeats):
        for model, layers in MODELS.items():
            for case in PLAIN:
                found = []
                for threads in (1, 2):
                    command = [sys.executable, "-m", "benchmarks.small_models", f"--plain={model}/{case}/{threads}"]
                    command += [f"--seconds={arguments.seconds}", f"--features={arguments.features}"]
                    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
                    found.append(float(done.stdout))
                rates[model][case].append(max(found))
            for case, optimizer in POOL.items():
                rate = pool_rate(layers, optimizer, arguments.features, arguments.seconds, arguments.threads)
                rates[model][case].append(rate)
    table = Table("model", *PLAIN, *POOL, "pool / faster plain", title="rows a second")
    results = {}
    for model, cases in rates.items():
        medians = {case: statistics.median(each) for case, each in cases.items()}
        ratio = max(medians[case] for case in POOL) / max(medians[case] for case in PLAIN)
        table.add_row(model, *(f"{medians[case]:,.0f}" for case in (*PLAIN, *POOL)), f"{ratio:.2f} (wanted {WANTED})")
        results[model] = {**medians, "ratio": ratio}
    Console(width=140).print(table)
    print(json.dumps({"benchmark": "small_models", "features": arguments.features, "results": results}))


if __name__ == "__main__":
    main()

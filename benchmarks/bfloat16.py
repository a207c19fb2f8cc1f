"""What gradients (`train.gradient_dtype`) and rows (`model.table_dtype`) as bfloat16 cost and change on CPUs.

First what they add to a step and take from it: processor time of one thread, medians over calls of each in turns, of a
table of HalfKAv2_hm, 1,024 wide, of which a batch touches 57 % of the rows: a batch's gradient rounded, one-pass Adam
with the gradients of two batches, and a batch's rows rounded before forward. Then configs/demo.toml with float32 and
with each of both, from each seed: the validation loss at the end, the gradients that the coordinator reads in a step,
and the processor time of all processes, their start included, divided by the steps. Prints the tables of the
documentation and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
import torch

import sparsepool
from benchmarks.rotated import ROOT
from pool import _native
from pool.nn.batch import SparseInput
from pool.optim.adam import adam_numbers
from pool.tasks.chess.training.fake_quantization import RoundedSparseLinear

CHANGES: dict[str, dict[str, dict[str, str]]] = {  # of the config, by what is bfloat16
    "nothing": {},
    "gradients": {"train": {"gradient_dtype": "bfloat16"}},
    "rows": {"model": {"table_dtype": "bfloat16"}},
}
ROWS, COLUMNS, TOUCHED = 22_528, 1_024, 0.57
ADAM = adam_numbers({"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "decoupled_weight_decay": False}, 3, 1e-8)


@dataclass(frozen=True)
class Run:
    bfloat16: str
    seed: int
    validation_loss: float
    gradient_mb: float  # a step
    processor_ms: float  # a step


def parts(repeats: int) -> dict[str, float]:
    """Milliseconds of a step's parts, by name."""
    rng = np.random.default_rng(1)
    lists = [np.flatnonzero(rng.random(ROWS) < TOUCHED).astype(np.uint16) for _ in range(2)]
    tables = [torch.randn(ROWS, COLUMNS) for _ in lists]
    rounded = [torch.empty(len(rows), COLUMNS, dtype=torch.bfloat16) for rows in lists]
    weights, old, mean, square = (torch.rand(ROWS, COLUMNS) for _ in range(4))

    def round_one() -> None:
        _native.round_rows(rounded[0], tables[0], lists[0])

    def step(gradients: Sequence[torch.Tensor]) -> None:
        sources = list(zip(gradients, lists, strict=True))
        _native.adam_rows(weights, old, [mean, square], sources, constants=ADAM, scale=0.5)

    layer = RoundedSparseLinear(ROWS, COLUMNS, field="", rule=None, bias=False, rows_dtype=torch.bfloat16)
    no_bags = torch.zeros(1, dtype=torch.uint32), torch.zeros(0, dtype=torch.uint16)
    sparse = SparseInput(*no_bags, torch.from_numpy(lists[0]), *no_bags)

    for out, table, rows in zip(rounded, tables, lists, strict=True):
        _native.round_rows(out, table, rows)
    return _in_turns(
        {
            "rounding a batch's gradient": round_one,
            "rounding a batch's rows": lambda: layer.effective_parameters(layer.weight, None, sparse),
            "Adam, float32": lambda: step(tables),
            "Adam, bfloat16": lambda: step(rounded),
        },
        repeats,
    )


def _in_turns(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.thread_time()
            call()
            times[name].append(1000 * (time.thread_time() - begin))
    return {name: median(each) for name, each in times.items()}


def measured(bfloat16: str, seed: int, steps: int, folder: Path) -> Run:
    """`folder`: of the run."""
    config = tomllib.loads((ROOT / "configs/demo.toml").read_text(encoding="utf-8"))
    for files in ("train", "validation"):
        config["data"][files] = [str(ROOT / path) for path in config["data"][files]]
    config["run"] = {"dir": str(folder), "seed": seed}
    config["train"] |= {"steps": steps, "validate_every": steps, "checkpoint_every": 0}
    for section, changes in CHANGES[bfloat16].items():
        config[section] |= changes
    before = _processor_time()
    records = sparsepool.train(config, quiet=True).metrics()
    used = _processor_time() - before
    losses = [record["validation_loss"] for record in records if record.get("validation_loss") is not None]
    read = median(record["gradient_mb"] for record in records if "gradient_mb" in record)
    return Run(bfloat16, seed, losses[-1], read, 1000 * used / steps)


def _processor_time() -> float:
    """Seconds, of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(runs: Sequence[Run]) -> str:
    """As the documentation has it."""
    lines = [
        "| bfloat16 | gradients read in a step | processor time of a step | validation loss, each seed |",
        "|---|---|---|---|",
    ]
    for bfloat16 in CHANGES:
        own = [run for run in runs if run.bfloat16 == bfloat16]
        read, used = (fmean(getattr(run, name) for run in own) for name in ("gradient_mb", "processor_ms"))
        losses = ", ".join(f"{run.validation_loss:.6f}" for run in own)
        lines.append(f"| {bfloat16} | {read:.0f} MB | {used:.0f} ms | {losses} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="of a step's parts")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="*", default=[42, 43, 44], help="of runs; none: no runs")
    arguments = parser.parse_args()
    _native.keep_freed_memory()  # as a worker does
    torch.set_num_threads(1)
    found, runs = parts(arguments.repeats), []
    print("\n".join(f"{name}: {ms:.1f} ms" for name, ms in found.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            for bfloat16 in CHANGES:
                runs.append(measured(bfloat16, seed, arguments.steps, Path(folder) / f"{bfloat16}-{seed}"))
    if runs:
        print(table(runs))
    print(json.dumps({"benchmark": "bfloat16", "parts": found, "runs": [asdict(run) for run in runs]}))


if __name__ == "__main__":
    main()

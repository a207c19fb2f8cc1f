"""What each version of Stockfish's network learns from one small file: held-out losses, three seeds each.

Every tenth game of ../shared's small.binpack (the bundled sample without it) is held out. The file is small: the losses
say that training works, and nothing about which network is better. `--net FILE.nnue` goes on from an engine's network
for some steps, at a low learning rate, in its own width. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import sparsepool
from benchmarks.rotated import REAL
from loader import _native
from loader.formats.binpack.file import entries
from pool.tasks.stockfish.networks import read_network, settings
from pool.tasks.stockfish.quantized.versions import VERSIONS

STEPS = 300
SCHEDULE = {"name": "torch.optim.lr_scheduler.ExponentialLR", "every": 10, "args": {"gamma": 0.9}}


def split(source: Path, folder: Path) -> tuple[Path, Path]:
    """Two files: nine games of ten, and the tenth."""
    writers = _native.BinpackWriter(), _native.BinpackWriter()
    game, last_ply = 0, -1
    for entry in entries(source):
        game += entry.ply <= last_ply
        last_ply = entry.ply
        writers[game % 10 == 0].add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    paths = folder / "train.binpack", folder / "held-out.binpack"
    for path, writer in zip(paths, writers, strict=True):
        writer.finish()
        path.write_bytes(writer.take())
    return paths


def config(files: tuple[Path, Path], seed: int, steps: int, lr: float) -> dict[str, Any]:
    return {
        "task": "stockfish",
        "data": {
            "train": [str(files[0])],
            "validation": [str(files[1])],
            "batch_size": 2048,
            "chess": {"filters": {"skip_in_check": True, "skip_captures": True}},
        },
        "optimizer": {"name": "pool.optim.Adam", "args": {"lr": lr, "eps": 1e-7}},
        "schedule": SCHEDULE,
        "train": {
            "steps": steps,
            "batches_per_step": 2,
            "validate_every": steps,
            "validation_batches": 8,
            "checkpoint_every": 0,
        },
        "run": {"seed": seed},
        "pool": {"devices": ["cpu", "cpu"]},
    }


def losses(settings: dict[str, Any], folder: Path) -> tuple[float, float]:
    """Held out, before the first step and after the last."""
    settings["run"]["dir"] = str(folder)
    records = sparsepool.train(settings, quiet=True).metrics()
    found = [record["validation_loss"] for record in records if "validation_loss" in record]
    return found[0], found[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL)
    parser.add_argument("--versions", nargs="*", choices=VERSIONS, default=["SFNNv5", "SFNNv10", "SFNNv16"])
    parser.add_argument("--l1", type=int, default=64)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--net", type=Path, help="a network to go on from")
    parser.add_argument("--net-steps", type=int, default=5)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = split(arguments.data, folder)
        for version in arguments.versions:
            found = []
            for seed in arguments.seeds:
                settings_of = config(files, seed, arguments.steps, 2e-3)
                settings_of["model"] = {"version": version, "l1": arguments.l1}
                settings_of["data"]["chess"]["features"] = VERSIONS[version].feature_set
                found.append(losses(settings_of, folder / f"{version}-{seed}"))
            results.append({"net": f"{version}, l1 = {arguments.l1}", "steps": arguments.steps, "losses": found})
        if arguments.net is not None:
            of_net = settings(read_network(arguments.net, None))
            settings_of = config(files, 1, arguments.net_steps, 1e-5)
            settings_of["model"] = {**of_net["model"], "start_from": str(arguments.net)}
            settings_of["data"]["chess"]["features"] = of_net["data"]["chess"]["features"]
            found = [losses(settings_of, folder / "net")]
            results.append({"net": arguments.net.name, "steps": arguments.net_steps, "losses": found})
    table = Table("network", "steps", "before", "after, each seed", "median after")
    for row in results:
        after = [end for _, end in row["losses"]]
        before = statistics.median(start for start, _ in row["losses"])
        each = ", ".join(f"{loss:.5f}" for loss in after)
        table.add_row(row["net"], str(row["steps"]), f"{before:.5f}", each, f"{statistics.median(after):.5f}")
    Console(width=120).print(table)
    print(json.dumps({"benchmark": "stockfish_learning", "data": arguments.data.name, "results": results}))


if __name__ == "__main__":
    main()

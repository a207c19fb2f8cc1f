"""What networks learn from one small file: held-out losses, for several seeds each.

A network is NAME@N: a config of configs/, or a version of Stockfish's network (configs/stockfish-19.toml with that
version), N outputs of the first layer wide. Every tenth game of the file is held out. The file is small: the losses say
that training works, and nothing about which network is better; those of the two tasks are different losses. With --net
FILE.nnue training goes on from an engine's network for some steps, at a low learning rate, in its own width. Prints the
table of the documentation and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sparsepool
from benchmarks.rotated import REAL, ROOT
from loader import _native
from loader.chess.positions.inputs import entries
from pool.tasks.stockfish.network import read_network
from pool.tasks.stockfish.versions import VERSIONS

NETWORKS = ("SFNNv5@64", "SFNNv10@64", "SFNNv16@64", "simple@128", "king-buckets@128", "multi-layer@128")
FINE_TUNING_RATE = 1e-5


@dataclass(frozen=True)
class Row:
    """Of a network: held-out losses before the first step and after the last, each seed's."""

    network: str
    steps: int
    before: Sequence[float]
    after: Sequence[float]


def split(source: Path, folder: Path) -> tuple[Path, Path, list[int]]:
    """Two files, nine games of ten and the tenth, and how many entries each has."""
    writers = _native.binpack().make_writer(), _native.binpack().make_writer()
    counts = [0, 0]
    game, last_ply = 0, -1
    for entry in entries(source):
        assert entry.ply is not None
        game += entry.ply <= last_ply
        last_ply = entry.ply
        part = game % 10 == 0
        writers[part].add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
        counts[part] += 1
    paths = folder / "train.binpack", folder / "held-out.binpack"
    for path, writer in zip(paths, writers, strict=True):
        writer.finish()
        path.write_bytes(writer.take())
    return *paths, counts


def config_of(network: str) -> dict[str, Any]:
    """The settings of NAME@N."""
    name, _, width = network.partition("@")
    if name not in VERSIONS:
        return {**_flat(name), "model.width": int(width)}
    version = VERSIONS[name]
    model = {"model.version": name, "model.l1": int(width), "data.chess.features": version.feature_set}
    return {**_flat("stockfish-19"), **model, "optimizer.args": {"lr": 2e-3, "eps": 1e-7}}


def of_net(net: Path) -> dict[str, Any]:
    """The settings of a run that goes on from an engine's network."""
    found = read_network(net, None).settings()
    model = {f"model.{key}": value for key, value in found["model"].items()}
    features = {"data.chess.features": found["data"]["chess"]["features"]}
    rate = {"optimizer.args": {"lr": FINE_TUNING_RATE, "eps": 1e-7}}
    return {**_flat("stockfish-19"), **model, **features, **rate, "model.start_from": str(net)}


def measured(name: str, config: Mapping[str, Any], steps: int, seeds: Sequence[int], folder: Path) -> Row:
    """`folder`: of the runs."""
    recipe = {
        "data.batch_size": 2048,
        "data.threads": 1,
        "data.chess.filters": {"skip_in_check": True, "skip_captures": True},
        "schedule.name": "torch.optim.lr_scheduler.ExponentialLR",
        "schedule.every": 10,
        "schedule.args": {"gamma": 0.9},
        "train.steps": steps,
        "train.batches_per_step": 2,
        "train.validate_every": steps,
        "train.validation_batches": 8,
        "train.checkpoint_every": 0,
        "pool.devices": ["cpu", "cpu"],
    }
    before, after = [], []
    for seed in seeds:
        run = {"run.seed": seed, "run.dir": str(folder / f"{name}-{seed}")}
        records = sparsepool.train({**config, **recipe, **run}, quiet=True).metrics()
        losses = [record["validation_loss"] for record in records if "validation_loss" in record]
        before.append(losses[0])
        after.append(losses[-1])
    return Row(name, steps, before, after)


def table(rows: Sequence[Row]) -> str:
    """As the documentation has it."""
    lines = [f"| {_cell(row.network)} | {row.steps} | {_span(row.before)} | {_each(row.after)} |" for row in rows]
    return "\n".join(["| network | steps | before | after, each seed |", "|---|---|---|---|", *lines])


def _flat(name: str) -> dict[str, Any]:
    return {
        f"{section}.{key}" if isinstance(values, dict) else section: value
        for section, values in tomllib.loads((ROOT / f"configs/{name}.toml").read_text()).items()
        for key, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def _cell(network: str) -> str:
    name, _, width = network.partition("@")
    return f"`{name}`, {width} wide" if width else f"`{name}`, learning rate {FINE_TUNING_RATE:g}"


def _span(losses: Sequence[float]) -> str:
    low, high = f"{min(losses):.5f}", f"{max(losses):.5f}"
    return low if low == high else f"{low} to {high}"


def _each(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.5f}" for loss in losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), metavar="NAME@N")
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--net", type=Path, help="a network to go on from")
    parser.add_argument("--net-steps", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, held_out, counts = split(arguments.data, folder)
        data = {"data.train": [str(train)], "data.validation": [str(held_out)]}
        print(f"{arguments.data.name}: {counts[0]:,} positions to learn from, {counts[1]:,} held out", flush=True)
        for network in arguments.networks:
            rows.append(measured(network, {**config_of(network), **data}, arguments.steps, arguments.seeds, folder))
        if arguments.net is not None:
            config = {**of_net(arguments.net), **data}
            rows.append(measured(arguments.net.name, config, arguments.net_steps, arguments.seeds[:1], folder))
    print(table(rows))
    print(json.dumps({"benchmark": "learning", "data": arguments.data.name, "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()

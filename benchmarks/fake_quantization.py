"""What export costs a network that was trained with and without fake quantization: the loss of the network as it is
trained, and that of the integers which an engine computes, on the same held-out positions.

Trains in this process, for a few hundred steps; every tenth game of the file is held out. A network is NAME@N: a config
of configs/, or a version of Stockfish's network (configs/stockfish-19.toml with that version), N outputs of the first
layer wide. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsepool
from benchmarks.rotated import REAL, ROOT
from loader import _native
from loader.chess.positions.inputs import entries
from pool.config.changes import Change
from pool.config.load import apply_changes
from pool.config.tree import Config
from pool.nn.batch import TensorBatch
from pool.task.factory import make_task
from pool.task.task import Progress, Task
from pool.tasks.chess.network import Network, NetworkTask
from pool.tasks.chess.positions import Position
from pool.tasks.chess.stockfish.versions import VERSIONS
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import FIELD, mean_loss
from pool.tasks.chess.training.score_share import lambda_at

NETWORKS = ("SFNNv5@64", "SFNNv16@64", "simple@128", "king-buckets@128", "multi-layer@128")
EVERYTHING = ("rows", "dense", "activations")
BATCH = 1000  # positions; of each kind as many as fit


@dataclass(frozen=True)
class Row:
    """Losses on the same positions."""

    network: str
    fake_quantization: Sequence[str]
    trained: float  # of the network as it is trained
    exported: float  # of the integers
    apart: float  # mean difference of the two evaluations of a position, units; cutting to whole ones makes 0.5

    @property
    def gap(self) -> float:
        return abs(self.exported - self.trained)


def split(source: Path, folder: Path) -> tuple[Path, Path]:
    """Two files: nine games of ten, and the tenth."""
    writers = _native.binpack().make_writer(), _native.binpack().make_writer()
    game, last_ply = 0, -1
    for entry in entries(source):
        assert entry.ply is not None
        game += entry.ply <= last_ply
        last_ply = entry.ply
        part = game % 10 == 0
        writers[part].add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    paths = folder / "train.binpack", folder / "held-out.binpack"
    for path, writer in zip(paths, writers, strict=True):
        writer.finish()
        path.write_bytes(writer.take())
    return paths


def config_of(network: str) -> dict[str, Any]:
    """The settings of NAME@N."""
    name, _, width = network.partition("@")
    if name not in VERSIONS:
        return {**_flat(name), "model.width": int(width)}
    version = VERSIONS[name]
    model = {"model.version": name, "model.l1": int(width), "data.chess.features": version.feature_set}
    return {**_flat("stockfish-19"), **model, "optimizer.args": {"lr": 2e-3, "eps": 1e-7}}


def measured(
    network: str, fake: Sequence[str], files: tuple[Path, Path], steps: int, positions: int, rate: float = 2e-3
) -> Row:
    quiet = {"skip_in_check": True, "skip_captures": True}
    own = {"model.fake_quantization": list(fake), "data.batch_size": BATCH, "data.chess.filters": quiet}
    changes = {**config_of(network), **own}
    tree = {"task": changes.pop("task")}
    config = apply_changes(tree, [Change(key, value, is_toml=True) for key, value in changes.items()], network)
    task = make_task(config.task, config.model, config.loss)
    torch.manual_seed(1)
    model: Any = task.build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, rate / 100)
    for step, batch in zip(range(steps), batches(config, files[0], epochs=None), strict=False):
        optimizer.zero_grad()
        task.loss(model, batch, Progress(step, steps)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        task.after_step(model)
        schedule.step()
    return Row(network, fake, *losses(config, task, model, files[1], positions))


def losses(config: Config, task: Task, model: Any, file: Path, positions: int) -> tuple[float, float, float]:
    """Returns those of the model and of what is exported, and how far their evaluations are apart."""
    assert isinstance(task, NetworkTask)
    exported = task.network(model)
    loss = config.loss
    assert isinstance(loss, LossConfig)
    share = lambda_at(loss, Progress(0, 1)).base
    found: list[list[float]] = []
    for batch, _ in zip(batches(config, file), range(positions // BATCH), strict=False):
        labels = batch.dense["score"], batch.dense["result"]
        with torch.no_grad():
            floats = model(batch).double()
        units = torch.from_numpy(exported.evaluate(positions_of(batch, exported)).value)
        pair = (mean_loss(each, *labels, loss, share).item() for each in (floats, units.double() / loss.output_unit))
        found.append([*pair, (floats * loss.output_unit - units).abs().mean().item()])
    assert len(found) == positions // BATCH, f"{file} has no {positions} positions"
    trained, integer, apart = np.mean(found, axis=0).tolist()
    return trained, integer, apart


def batches(config: Config, file: Path, epochs: int | None = 1) -> Iterator[TensorBatch]:
    data = config.data.model_dump(mode="json")
    settings = {key: data[key] for key in ("batch_size", "source")} | {"threads": 1, **data["chess"]}
    with sparsepool.batches([str(file)], epochs=epochs, seed=1, **settings) as found:
        yield from found


def positions_of(batch: TensorBatch, network: Network) -> list[Position]:
    """What an exported network sees of them: no virtual inputs."""
    sparse, pieces = batch.sparse[FIELD], batch.dense["piece_count"].tolist()
    inputs = _native.describe_feature_set(*network.inputs)[0]
    bags = np.split(sparse.features.numpy().astype(np.int64), sparse.offsets.numpy()[1:-1])
    own, other = ([bag[bag < inputs] for bag in part] for part in (bags[: len(pieces)], bags[len(pieces) :]))
    return [Position(*each) for each in zip(own, other, pieces, strict=True)]


def table(rows: Sequence[Row]) -> str:
    """As the documentation has it."""
    lines = [
        f"| `{row.network}` | {', '.join(row.fake_quantization) or 'none'} | {row.trained:.6f} | {row.exported:.6f} "
        f"| {row.gap:.6f} | {row.apart:.1f} |"
        for row in rows
    ]
    return "\n".join(
        ["| network | fake quantization | trained | exported | gap | apart |", "|---|---|---|---|---|---|", *lines]
    )


def _flat(name: str) -> dict[str, Any]:
    return {
        f"{section}.{key}" if isinstance(values, dict) else section: value
        for section, values in tomllib.loads((ROOT / f"configs/{name}.toml").read_text()).items()
        for key, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), metavar="NAME@N")
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file")
    parser.add_argument("--steps", type=int, default=300, help=f"of {BATCH:,} positions")
    parser.add_argument("--positions", type=int, default=10_000)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        train, held_out = split(arguments.data, Path(name))
        for network in arguments.networks:
            for fake in ((), EVERYTHING):
                rows.append(measured(network, fake, (train, held_out), arguments.steps, arguments.positions))
    print(table(rows))
    found = [asdict(row) | {"gap": row.gap} for row in rows]
    print(json.dumps({"benchmark": "fake_quantization", "data": arguments.data.name, "rows": found}))


if __name__ == "__main__":
    main()

"""Proof of learning: networks for Stockfish 15.1 trained on data that anybody can make again, and what they play.

Makes the data itself where it is missing, by `loader generate` with a fixed seed and fixed nodes, in a folder that git
ignores, and prints its SHA-256. Trains configs/demo.toml's network (SFNNv5, 1,024 wide) on it from several seeds and
follows the held-out loss over the positions seen. Then games in the engine, by `loader match`: each seed's last network
against its own after few positions, and against the engine's classical evaluation, all at the same nodes.
Prints the tables of the documentation and one line of JSON, from which docs/pictures/benchmarks.py draws the curves.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import sparsepool
from benchmarks.rotated import ROOT

DATA_NODES = 100
MATCH_NODES = 1000
BATCHES_PER_STEP = 2
CONFIG = ROOT / "configs/demo.toml"
DEBIANS_ENGINE = Path("/usr/games/stockfish")
EARLY, CLASSICAL = "early network", "classical evaluation"


@dataclass(frozen=True)
class Scale:
    """How much is made, learned from and played.

    early: the step of the network that has seen little. steps: of a run, a multiple of it. games: of one match.
    """

    train: int
    held_out: int
    batch: int
    early: int
    steps: int
    validate_every: int
    seeds: Sequence[int]
    games: int

    def positions(self, step: int) -> int:
        """Seen until then."""
        return step * self.batch * BATCHES_PER_STEP


FULL = Scale(
    train=1_000_000, held_out=40_000, batch=2048, early=32, steps=512, validate_every=32, seeds=(1, 2, 3), games=200
)
QUICK = Scale(train=4_000, held_out=1_000, batch=128, early=8, steps=16, validate_every=8, seeds=(1,), games=2)


@dataclass(frozen=True)
class Run:
    """Of one seed: the held-out loss after so many positions, and how long it took."""

    seed: int
    positions: Sequence[int]
    losses: Sequence[float]
    seconds: float

    def loss_at(self, positions: int) -> float:
        return self.losses[self.positions.index(positions)]


@dataclass(frozen=True)
class Game:
    """A match: the last network of `seed` against `opponent`; Elo with the half width of its 95 % interval."""

    seed: int
    opponent: str
    wins: int
    draws: int
    losses: int
    elo: float
    elo_error: float | None  # none where all pairs ended alike

    def __str__(self) -> str:
        counts = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        return f"seed {self.seed} against {self.opponent}: {counts}, Elo {self.in_words}"

    @property
    def in_words(self) -> str:
        """Elo, with its error if there is one."""
        return f"{self.elo:+.0f}" + ("" if self.elo_error is None else f" +- {self.elo_error:.0f}")


def made(folder: Path, name: str, positions: int, seed: int, engine: Path) -> Path:
    """The file of that many positions; generated if it is not there. A run that is stopped goes on at the next call."""
    path = folder / f"{name}-{positions}.binpack"
    if not path.exists():
        begin = time.monotonic()
        words = ["--engine", engine, "--positions", positions, "--nodes", DATA_NODES, "--seed", seed]
        _loader("generate", "-o", path, *words, "--engines", _cores())
        print(f"{path.name}: made in {time.monotonic() - begin:.0f} s", flush=True)
    return path


def trained(scale: Scale, seed: int, data: Mapping[str, Path], folder: Path) -> Run:
    """Trains into `folder`, which is removed first; its networks are nets/step-N.nnue, every `scale.early` steps."""
    shutil.rmtree(folder, ignore_errors=True)
    changes = {
        "run.dir": str(folder),
        "run.seed": seed,
        "data.train": [str(data["train"])],
        "data.validation": [str(data["held-out"])],
        "data.batch_size": scale.batch,
        "data.chess.features": "HalfKAv2_hm^",
        "model.factorized": True,
        "schedule.every": "5%",
        "schedule.args": {"gamma": 0.85},
        "train.steps": scale.steps,
        "train.batches_per_step": BATCHES_PER_STEP,
        "train.validate_every": scale.validate_every,
        "train.validation_batches": 8,
        "train.checkpoint_every": 0,
        "train.export_every": scale.early,
        "train.keep_checkpoints": 1,
        "pool.devices": ["cpu", "cpu"],
    }
    begin = time.monotonic()
    records = sparsepool.train(CONFIG, changes, quiet=True).metrics()
    seconds = time.monotonic() - begin
    validations = [record for record in records if "validation_loss" in record]
    seen = [scale.positions(record["step"]) for record in validations]
    return Run(seed, seen, [record["validation_loss"] for record in validations], seconds)


def played(scale: Scale, seed: int, folder: Path, engine: Path, classical: Path) -> list[Game]:
    """The two matches of a seed. `folder`: of its run."""
    early, last = (folder / f"nets/step-{step:09d}.nnue" for step in (scale.early, scale.steps))
    opponents = {EARLY: [last, early, "--engine", engine], CLASSICAL: [last, "--engine", engine, "--engine", classical]}
    games = []
    for opponent, players in opponents.items():
        words = ["--nodes", MATCH_NODES, "--games", scale.games, "--seed", seed, "--threads", _cores()]
        result = json.loads(_loader("match", *players, *words).splitlines()[-1])
        counts = (result.get(name) for name in ("wins", "draws", "losses", "elo", "elo_error"))
        games.append(Game(seed, opponent, *counts))
        print(games[-1], flush=True)
    return games


def classical_engine(engine: Path, folder: Path) -> Path:
    """A program that is the engine without a network."""
    path = folder / "classical"
    path.write_text(f"#!/bin/sh\n(echo setoption name Use NNUE value false; cat) | {shlex.quote(str(engine))}\n")
    path.chmod(0o755)
    return path


def table(scale: Scale, runs: Sequence[Run], games: Sequence[Game]) -> str:
    """As the documentation has it: what each seed's networks lose and play."""
    early, last = scale.positions(scale.early), scale.positions(scale.steps)
    lines = [
        f"| seed | loss before | after {early:,} positions | {last:,} | Elo against {EARLY} | against {CLASSICAL} |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        elo = {game.opponent: game.in_words for game in games if game.seed == run.seed}
        losses = " | ".join(f"{run.loss_at(positions):.5f}" for positions in (0, early, last))
        lines.append(f"| {run.seed} | {losses} | {elo[EARLY]} | {elo[CLASSICAL]} |")
    return "\n".join(lines)


def _loader(*words: object) -> str:
    """What the command prints; its progress is shown."""
    command = [sys.executable, "-m", "loader", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few positions and games: does it work at all?")
    parser.add_argument("--engine", type=Path, default=DEBIANS_ENGINE, help="Stockfish 15.1")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/learning", help="for data, runs and networks")
    arguments = parser.parse_args()
    scale: Scale = QUICK if arguments.quick else FULL
    folder, engine = arguments.folder.resolve(), arguments.engine
    if not engine.exists():
        sys.exit(f"{engine}: no such program: apt-get install stockfish, or --engine PATH")
    folder.mkdir(parents=True, exist_ok=True)
    data = {
        "train": made(folder, "train", scale.train, 1, engine),
        "held-out": made(folder, "held-out", scale.held_out, 2, engine),
    }
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in data.values()}
    for name, digest in sums.items():
        print(f"{name}: SHA-256 {digest}", flush=True)
    runs: list[Run] = []
    games: list[Game] = []
    for seed in scale.seeds:
        run_folder = folder / f"seed-{seed}"
        runs.append(trained(scale, seed, data, run_folder))
        print(f"seed {seed}: trained in {runs[-1].seconds:.0f} s", flush=True)
        games += played(scale, seed, run_folder, engine, classical_engine(engine, folder))
    print(table(scale, runs, games))
    results = {"sha256": sums, "runs": [asdict(run) for run in runs], "games": [asdict(game) for game in games]}
    print(json.dumps({"benchmark": "learning", "scale": asdict(scale), **results}))


if __name__ == "__main__":
    main()

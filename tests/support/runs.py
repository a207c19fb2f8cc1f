"""Real runs for tests: `pool train` as its user starts it, and what is left of it afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.support.paths import ROOT, SAMPLE
from tests.support.warm import call_pool

TOY = {
    "task": "tests.support.toy",
    "data.source": "synthetic",
    "data.batch_size": 64,
    "train.steps": 12,
    "train.batches_per_step": 2,
    "pool.devices": ["fake:0", "fake:1"],
    "optimizer.name": "pool.optim.Adam",  # torch's take a second longer to import
    "optimizer.args.lr": 0.01,
}


STOCKFISH: dict[str, Any] = {
    "task": "stockfish",
    "data.train": [str(SAMPLE / "train.binpack")],
    "data.validation": [str(SAMPLE / "validation.binpack")],
    "data.batch_size": 1024,
    "data.chess.filters.skip_in_check": True,
    "data.chess.filters.skip_captures": True,
    "model.l1": 32,
    "train.steps": 6,
    "train.batches_per_step": 3,
    "train.validate_every": 3,
    "train.validation_batches": 3,
    "optimizer.args.lr": 0.002,
    "pool.devices": ["fake:0", "fake:1"],
}


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    dir: Path
    code: int
    out: str
    err: str

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        return load_file(self.dir / "checkpoints/last/weights.safetensors")

    def digest(self) -> str:
        """SHA-256 over all weights, optimizer state and averaged weights, as bytes (NaN and -0.0 included)."""
        total = hashlib.sha256()
        last = self.dir / "checkpoints/last"
        names = ("weights.safetensors", "optimizer.safetensors", "average.safetensors")
        for name in filter(lambda name: (last / name).exists(), names):
            for key, array in sorted(load_file(last / name).items()):
                total.update(key.encode())
                total.update(array.tobytes())
        return total.hexdigest()

    def metrics(self) -> list[dict[str, Any]]:
        lines = (self.dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


WholeRun = Callable[[Mapping[str, Any]], Ended]  # the fixture: a run by its settings


def toml_value(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(key)} = {toml_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date | time) else repr(value)


def toml(settings: Mapping[str, Any]) -> str:
    """A TOML file of dotted keys."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in settings.items())


def command(dir: Path, settings: Mapping[str, Any], *arguments: str, name: str = "train") -> list[str]:
    """The command line of `pool NAME` for a run in `dir`; writes its config file beside it."""
    config = dir.with_name(f"{dir.name}.toml")
    config.write_text(toml({**settings, "run.dir": str(dir)}), encoding="utf-8")
    return [sys.executable, "-m", "pool", name, str(config), *arguments]


def elsewhere() -> dict[str, str]:
    """The environment of a command that is called in another folder and still uses the tests' modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


def run(
    dir: Path,
    settings: Mapping[str, Any],
    *arguments: str,
    name: str = "train",
    timeout: float = 280,
    cwd: Path = ROOT,
) -> Ended:
    """Runs `pool NAME` to the end, whatever that is, without its imports (`tests.support.warm`)."""
    line = command(dir, settings, *arguments, name=name)
    environment = elsewhere() if cwd != ROOT else None
    done = call_pool(*line[line.index("pool") + 1 :], timeout=timeout, cwd=cwd, environment=environment)
    return Ended(dir, done.returncode, done.stdout, done.stderr)


def check(dir: Path, settings: Mapping[str, Any], *arguments: str) -> Ended:
    """Runs `pool check`."""
    return run(dir, settings, *arguments, name="check")


def run_well(dir: Path, settings: Mapping[str, Any], *arguments: str, name: str = "train") -> Ended:
    """Runs to the end, which must be a good one."""
    ended = run(dir, settings, *arguments, name=name)
    logs = "".join(path.read_text() for path in sorted((dir / "logs").glob("*.log"))) if ended.code else ""
    assert ended.code == 0, f"exit code {ended.code}\n{ended.out}\n{ended.err}\n{logs}"
    return ended


def copied(ended: Ended, to: Path) -> Path:
    """A run's folder, to go on in."""
    return Path(shutil.copytree(ended.dir, to, symlinks=True))


def steps_done(dir: Path) -> int:
    """Counts the steps by the run's metrics; while it runs, too."""
    path = dir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def pids_of(dir: Path) -> Sequence[int]:
    """Processes of a run that are still there: those that write their output into its folder, and its supervisor."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                output = str((entry / "fd/1").readlink())
                if output.startswith(f"{dir}/") or str(dir).encode() in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
            except OSError:
                continue
    return pids

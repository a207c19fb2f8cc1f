"""Prints SHA-256 of weights and optimizer state of eight runs and of three stages of a recipe: equal before and after
a change that keeps numbers.

    python -m tests.digests > before.txt; git switch CHANGE; python -m tests.digests | diff before.txt -

The toy, alone or as ensemble, uses torch's matrix products, so that its digest depends on the processor's model. Of the
others there are digests on record, which tests/runs/test_digests.py compares; `--record` writes those of this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pool.config.load import parse_config
from tests.chaos.oracle import CHESS, SETTINGS
from tests.chaos.test_recipe import SETTINGS as RECIPE
from tests.chaos.test_recipe import STAGES
from tests.support.ensembles import ensemble
from tests.support.paths import DATA, ROOT
from tests.support.recipes import digests, train, write
from tests.support.runs import TOY, Ended, command, pids_of, run, run_well, steps_done
from tests.support.wait import wait_for

ADAM = {**CHESS, "optimizer.name": "pool.optim.Adam", "testing.history": False}
RECORDED = DATA / "digests.json"
OF_THE_TOY = ("toy", "ensemble")
TWO_CPUS = {"pool.devices": ["cpu", "cpu"], "pool.threads": 1}


def shipped(name: str, steps: int) -> dict[str, Any]:
    """The first steps of a config of the project, its schedule as for all of them."""
    tree = tomllib.loads((ROOT / f"configs/{name}.toml").read_text(encoding="utf-8"))
    schedule = parse_config(tree, name).run_schedule
    whole = {"schedule.every": round(schedule.every), "schedule.args": schedule.args}
    few = {"train.steps": steps, "train.validate_every": 0, "train.checkpoint_every": 0}
    return {**dotted(tree), **whole, **TWO_CPUS, **few}


def dotted(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections as dotted keys; a table of free keys stays a value."""
    keys: dict[str, Any] = {}
    for name, value in tree.items():
        free = name in ("args", "fields")
        keys |= dotted(value, f"{prefix}{name}.") if isinstance(value, dict) and not free else {prefix + name: value}
    return keys


def resumed(dir: Path) -> Ended:
    """A run that is stopped by SIGTERM after its first steps, then resumed."""
    process = subprocess.Popen(command(dir, {**ADAM, "train.steps": 40}), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: steps_done(dir) >= 2, "two steps", 120)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    return run_well(dir, {**ADAM, "train.steps": 40}, "--resume")


def killed(dir: Path) -> Ended:
    """A run whose coordinator and workers are killed after the first steps."""
    process = subprocess.Popen(command(dir, {**ADAM, "train.steps": 40}), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: steps_done(dir) >= 2, "two steps", 120)
    names = {pid: Path(f"/proc/{pid}/comm").read_text(encoding="ascii") for pid in pids_of(dir)}
    victims = [pid for pid, name in names.items() if name.startswith(("coordinator", "worker"))]
    assert len(victims) == 3, "a coordinator, two workers"
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    return Ended(dir, process.wait(120), "", "")


def all_runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Trains each; yields names and digests."""
    members = [{"run.model_seed": seed} for seed in (1, 2)]
    runs: dict[str, Any] = {
        "toy": SETTINGS,
        "chess": ADAM,
        "demo20": shipped("demo", 20),
        "clicks": shipped("clicks", 20),
        "ensemble": ensemble({**TOY, "optimizer.name": "pool.optim.SparseAdam"}, members),
    }
    for name, settings in runs.items():
        yield name, run_well(folder / name, settings).digest()
    for name, disturbed in (("resumed", resumed), ("killed", killed)):
        yield name, disturbed(folder / name).digest()
    yield "undisturbed", run(folder / "whole", {**ADAM, "train.steps": 40}).digest()
    train(write(folder / "recipe", RECIPE, STAGES))
    for name, digest in digests(folder / "recipe/runs").items():
        yield f"{name} stage", digest


def here() -> str:
    """What the bits of torch's operations depend on, here."""
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("vendor_id")[2].partition("\n")[0]
    vendor, version = about.lstrip(" :\t"), torch.__version__.partition("+")[0]
    return f"torch {version}, {vendor}, {torch.backends.cpu.get_cpu_capability()}"


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, digest in all_runs(Path(folder)):
            print(f"{digest}  {name}", flush=True)
            found[name] = digest
    if sys.argv[1:] == ["--record"]:
        found = {name: digest for name, digest in found.items() if name not in OF_THE_TOY}
        known = json.loads(RECORDED.read_text(encoding="utf-8"))
        RECORDED.write_text(json.dumps({**known, here(): found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

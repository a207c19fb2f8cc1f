"""Checkpoints with right sums, mutated at random, handed to everything that reads one.

Each mutant must be taken for what it still is, or be refused in one line; no module that it names is ever imported.
"""

from __future__ import annotations

import atexit
import copy
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pool.checkpoint.state import BEST, FOLDER, LAST, OPTIMIZER, STATE, WEIGHTS
from tests.hostile.attack import assert_said_well
from tests.support.crafted import read, reseal, reseal_header, seal
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, command, run_well

SETTINGS = {
    **TOY,
    "train.steps": 4,
    "train.checkpoint_every": 2,
    "schedule.name": "torch.optim.lr_scheduler.StepLR",
    "schedule.args.step_size": 2,
}
NAME = "step-000000004"
CANARY = "import pathlib\npathlib.Path(__file__).with_name('sung').touch()\n"
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    5,
    1 << 31,
    (1 << 63) - 1,
    1 << 63,
    1 << 200,
    -(1 << 200),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "canary",
    "canary:sings",
    "canary.sings",
    "../..",
    "\x1b[2J\n\x00",
    "x" * 5000,
    [],
    [[]],
    [0] * 50,
    {},
    {"": {}},
    {"canary": "canary"},
)


@functools.cache
def genuine() -> Path:
    """A run that has ended; made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-checkpoint-")) / "run"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    run_well(folder, SETTINGS)
    return folder


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value can be put."""
    found = [path] if path else []
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        found += places(value, (*path, key))
    return found


def mutate(rng: random.Random, tree: Any) -> None:
    """Changes a value, takes it away, gives it another name, or puts it somewhere else."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        known = places(tree)
        *path, last = rng.choice(known)
        holder = functools.reduce(lambda node, key: node[key], path, tree)
        action = rng.randrange(4)
        if action == 0 and isinstance(holder, dict):
            del holder[last]
        elif action == 1 and isinstance(holder, dict):
            holder[rng.choice(("", "canary", "a/b", "\x00", "step", "x" * 300))] = holder.pop(last)
        elif action == 2:
            *where, name = rng.choice(known)
            source = functools.reduce(lambda node, key: node[key], where, tree)
            holder[last] = json.loads(json.dumps(source[name]))
        else:
            holder[last] = copy.deepcopy(rng.choice(VALUES))
        if not tree:
            return


def craft(rng: random.Random, checkpoint: Path) -> None:
    kind = rng.randrange(8)
    if kind < 4:
        reseal(checkpoint, lambda tree: mutate(rng, tree))
    elif kind < 6:
        reseal_header(checkpoint, lambda tree: mutate(rng, tree), rng.choice((WEIGHTS, OPTIMIZER)))
    elif kind == 6:
        text = json.dumps(read(checkpoint))
        at = rng.randrange(len(text))
        deep = "[" * 50_000 + "]" * 50_000
        seal(checkpoint, text[:at] + rng.choice(("\x00", '"', "{", "9" * 5000, deep, "NaN")) + text[at + 1 :])
    else:
        path = checkpoint / rng.choice((STATE, WEIGHTS, OPTIMIZER))
        path.unlink()
        rng.choice((os.mkfifo, os.mkdir, lambda place: Path(place).symlink_to("/dev/zero")))(path)
    if rng.random() < 0.2:
        for name in (LAST, BEST):
            (checkpoint.parent / name).unlink(missing_ok=True)
            (checkpoint.parent / name).symlink_to(rng.choice(("..", "/", "/proc/self/fd", NAME, "nowhere", name)))


def prepared(rng: random.Random, folder: Path) -> Path:
    """A run's folder whose newest checkpoint is a mutant, beside a module that must never be imported."""
    (folder / "canary.py").write_text(CANARY)
    shutil.copytree(genuine(), folder / "run", symlinks=True)
    craft(rng, folder / "run" / FOLDER / NAME)
    return folder / "run"


def use(folder: Path, arguments: list[str]) -> Ended:
    """Calls the program from the folder of the canary."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert not (folder / "sung").exists(), "a module that a checkpoint names has been imported"
    ended = Ended(folder / "run", done.returncode, done.stdout, done.stderr)
    assert_said_well(ended)
    return ended


def exported(rng: random.Random, folder: Path) -> None:
    """`pool export` of mutants; most attacks are this one's, which is quick."""
    for number in range(3):
        place = folder / str(number)
        place.mkdir()
        run = prepared(rng, place)
        where = rng.choice((run, run / FOLDER, run / FOLDER / NAME, run / FOLDER / LAST))
        task = rng.choice(([], ["--task", "tests.support.toy"], ["--task", "stockfish"]))
        words = [sys.executable, "-m", "pool", "export", str(where), "-o", str(place / "net"), *task]
        ended = use(place, words)
        assert (ended.code == 0) == (place / "net").exists()


def resumed(rng: random.Random, folder: Path) -> None:
    """A mutant that trains is one whose step is right, and the run ends where its config says."""
    run = prepared(rng, folder)
    ended = use(folder, command(run, {**SETTINGS, "train.steps": 6}, "--resume"))
    if ended.code == 0:
        assert json.loads((run / FOLDER / LAST / STATE).read_text())["step"] == 6
        assert [record["step"] for record in ended.metrics()] == [1, 2, 3, 4, 5, 6]


def started_from(rng: random.Random, folder: Path) -> None:
    run = prepared(rng, folder)
    fresh = folder / "fresh"
    ended = use(folder, command(fresh, {**SETTINGS, "train.steps": 2, "model.start_from": str(run)}))
    if ended.code == 0:
        assert json.loads((fresh / FOLDER / LAST / STATE).read_text())["step"] == 2


ATTACKS = (exported, resumed, started_from)

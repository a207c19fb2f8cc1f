"""What must be so after a run, whatever was done to it: the same bits, a sound history, and nothing left over."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.history import HistoryChecker, check_history
from tests.support.runs import TOY, Ended, pids_of, run_well
from tests.support.wait import wait_for

# Small, and with everything in it: snapshots, checkpoints, several buckets, groups of batches.
SETTINGS: dict[str, Any] = {
    **TOY,
    "optimizer.name": "torch.optim.Adam",  # ours sums and steps in one pass, so that there is less to be killed between
    "train.steps": 12,
    "train.batches_per_step": 4,
    "train.batches_per_group": 2,
    "train.checkpoint_every": 4,
    "train.keep_checkpoints": 2,
    "train.average.kind": "ema",
    "train.average.every": 2,
    "pool.snapshot_steps": 3,
    "pool.first_bucket_mb": 1e-6,
    "pool.bucket_mb": 0.01,
    "testing.history": True,
}
# The same with real data: the loader's threads, the planned kernels and our own optimizer take part.
CHESS: dict[str, Any] = {
    **{
        key: value
        for key, value in SETTINGS.items()
        if not key.startswith(("data.", "task", "optimizer.", "train.average."))
    },
    "train.batches_per_step": TOY["train.batches_per_step"],
    "train.batches_per_group": 1,
    "task": "stockfish",
    "data.train": ["configs/sample/validation.binpack"],
    "data.chess.features": "HalfKAv2_hm",
    "data.batch_size": 4096,
    "data.window_chunks": 1,
    "model.l1": 32,
    "optimizer.name": "pool.optim.SparseAdam",
    "train.steps": 6,
    "pool.bucket_mb": 25.0,
}
_FILES = re.compile(
    r"config\.json|status\.json|first-steps\.json|history\.jsonl|metrics\.jsonl|lock"
    r"|tensorboard/events\..*|logs/[a-z]+(-\d+)?\.log"
    r"|checkpoints/(step-\d{9}|last)/((weights|optimizer|average)\.safetensors|chunk-sums\.safetensors|state\.json)"
)


@dataclass(frozen=True)
class Undisturbed:
    """The run that others are compared with."""

    digest: str
    history: HistoryChecker
    buckets: int


def undisturbed(dir: Path, settings: dict[str, Any] = SETTINGS) -> Undisturbed:
    """A run in which nothing happens."""
    ended = run_well(dir, settings)
    lines = (dir / "history.jsonl").read_text(encoding="utf-8")
    buckets = 1 + max(int(number) for number in re.findall(r'"bucket": (\d+)', lines))
    history = check_history(dir / "history.jsonl", settings["train.batches_per_step"], buckets)
    assert history.incarnations == 1
    return Undisturbed(ended.digest(), history, buckets)


def assert_unharmed(ended: Ended, reference: Undisturbed, settings: dict[str, Any] = SETTINGS) -> HistoryChecker:
    """All of it but shared memory, which is the machine's: see `shared_memory`."""
    logs = "".join(f"{path.name}: {path.read_text()}" for path in sorted((ended.dir / "logs").glob("*.log")))
    told = f"exit code {ended.code}\n{ended.out}\n{ended.err}\n{logs}"
    assert ended.code == 0, told
    history = check_history(ended.dir / "history.jsonl", settings["train.batches_per_step"], reference.buckets)
    first_wrong = [step for step, digest in history.hashes.items() if reference.history.hashes[step] != digest]
    assert not first_wrong, f"version {first_wrong[0]} has other bits\n{told}"
    assert history.hashes.keys() <= reference.history.hashes.keys()
    assert ended.digest() == reference.digest, told
    wait_for(lambda: not pids_of(ended.dir), "processes gone", 5)
    left = [str(path.relative_to(ended.dir)) for path in ended.dir.rglob("*") if not path.is_dir()]
    assert not [name for name in left if not _FILES.fullmatch(name)], left
    return history


def shared_memory() -> int:
    """Bytes of shared memory in use on the machine."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) << 10
    raise AssertionError("/proc/meminfo has no Shmem")


def left_outside() -> set[str]:
    """Returns what a run could leave elsewhere: names in /dev/shm, and folders of sockets. Semaphores of Python's
    multiprocessing are other tests': a run has none."""
    temporary = Path(os.environ.get("TMPDIR", "/tmp"))
    shared = (path for path in Path("/dev/shm").iterdir() if not path.name.startswith("sem.mp-"))
    return {str(path) for path in (*shared, *temporary.glob("sparsepool-*"))}


def check_nothing_left_outside(before: set[str]) -> None:
    """Another program's semaphore has a name for a moment, so what is there must also stay."""
    wait_for(lambda: left_outside() <= before, f"nothing but {sorted(before)} in /dev/shm and among sparsepool-*", 10)

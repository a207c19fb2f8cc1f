"""A run of `pool train`, its processes as a user starts them, that goes on until it is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.rotated import ROOT

Record = dict[str, Any]  # of a step, as metrics.jsonl has it
Span = dict[str, Any]  # of a process, as a trace has it: name, dur in microseconds, args
PAUSE = 0.05  # seconds between two looks at the file


def times(records: Sequence[Record]) -> list[float]:
    """When each step was done, in seconds."""
    return [record["time"] for record in records]


class EndlessRun:
    def __init__(self, process: subprocess.Popen[bytes], dir: Path) -> None:
        self._process = process
        self._dir = dir

    def until(self, enough: Callable[[Sequence[Record]], bool]) -> list[Record]:
        """What is recorded of the steps when that is enough. Raises SystemExit if the run ends before."""
        while not enough(records := self._recorded()):
            if self._process.poll() is not None:
                raise SystemExit(f"pool train ended with {self._process.returncode}")
            time.sleep(PAUSE)
        return records

    def spans(self) -> list[Span]:
        """What each process has done when, as far as it is over."""
        events = (event for part in (self._dir / "trace").glob("*.jsonl") for event in _lines(part))
        return [event for event in events if event["ph"] == "X"]

    def _recorded(self) -> list[Record]:
        metrics = self._dir / "metrics.jsonl"
        return [record for record in _lines(metrics) if "loss" in record] if metrics.exists() else []


def _lines(path: Path) -> list[dict[str, Any]]:
    """Those that are whole."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


@contextmanager
def endless_run(settings: str, *, trace: bool = False) -> Iterator[EndlessRun]:
    """Starts it with these settings, in TOML; it has no checkpoints, and is killed at the end. `trace`: with spans."""
    with tempfile.TemporaryDirectory() as folder:
        dir, config = Path(folder) / "run", Path(folder) / "run.toml"
        own = f'run.dir = "{dir}"\ntrain.steps = 1000000\ntrain.checkpoint_every = 0\n'
        if trace:
            own += f'run.trace = "{folder}/trace.json"\n'
        config.write_text(own + settings, encoding="utf-8")
        command = [sys.executable, "-m", "pool", "train", str(config)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            yield EndlessRun(process, dir)
        finally:
            process.kill()
            process.wait()

"""What a run records about itself: metrics.jsonl and TensorBoard scalars in the run folder, and the report
that the supervisor shows. Records of steps that a resume does again are removed first."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from pool.coordinator.shares import Spent, shares
from pool.protocol.messages import RunReport, Shares, Times

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
EVENT_SECONDS = 0.2  # between two points of a TensorBoard curve, at least

Work = Literal["reducing", "optimizing"]


class Metrics:
    def __init__(self, run_dir: Path, step: int, steps: int, samples_per_step: int) -> None:
        self._steps = steps
        self._samples_per_step = samples_per_step
        self._begin_step = step
        self._begin: float | None = None
        self._last_commit: float | None = None
        self._workers: dict[int, Times] = {}
        self._seconds: dict[Work, float] = {"reducing": 0.0, "optimizing": 0.0}
        self._gradient_nbytes = 0
        self._spent = Spent()
        self._shares = Shares()
        path = run_dir / METRICS
        self.validated_version = _forget_after(path, step)  # newest that is on record, -1: none
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._for_tensorboard: dict[str, tuple[float, int]] = {}  # tag -> newest value, and its step
        self._next_event = 0.0
        self._events = EventFileWriter(str(run_dir / TENSORBOARD))
        self.validation_loss = math.nan
        self.loss = math.nan

    def worker(self, index: int, times: Times) -> None:
        """What a worker says of its time; the run's clock starts when the first one is known to have computed more."""
        before = self._workers.get(index, times)
        self._workers[index] = times
        if self._begin is None and times.computing > before.computing:
            self._begin = self._last_commit = time.monotonic()

    def committed(
        self, step: int, losses: tuple[float, ...], epoch: int, learning_rate: float, gradient_nbytes: int
    ) -> None:
        """Step `step` is done; `gradient_nbytes`: read of gradient slots since the beginning."""
        now = time.monotonic()
        seconds = now - (self._last_commit if self._last_commit is not None else now)
        self._last_commit = now
        self.loss = fmean(losses) if losses else math.nan
        self._look_at_times()
        self._record(
            step + 1,
            {
                "loss": self.loss,
                "learning_rate": learning_rate,
                "epoch": epoch,
                "samples_per_second": self._samples_per_step / seconds if seconds > 0 else 0.0,
                "gradient_mb": (gradient_nbytes - self._gradient_nbytes) / 1e6,
                **asdict(self._shares),
            },
        )
        self._gradient_nbytes = gradient_nbytes

    @contextmanager
    def measured(self, work: Work) -> Iterator[None]:
        """Counts the time inside as the coordinator's adding up, or as the optimizer's."""
        begin = time.monotonic()
        yield
        self._seconds[work] += time.monotonic() - begin

    def validated(self, version: int, loss: float) -> None:
        self.validation_loss = loss
        self._record(version, {"validation_loss": loss})

    def report(self, step: int, checkpoint: int, epoch: int, learning_rate: float, *, finished: bool) -> RunReport:
        seconds = 0.0 if self._begin is None else time.monotonic() - self._begin
        return RunReport(
            step=step,
            steps=self._steps,
            epoch=epoch,
            samples_per_step=self._samples_per_step,
            samples=(step - self._begin_step) * self._samples_per_step,
            seconds=seconds,
            loss=self.loss,
            validation_loss=self.validation_loss,
            learning_rate=learning_rate,
            shares=self._shares,
            computed=sum((worker.computing for worker in self._workers.values()), 0.0),
            checkpoint=checkpoint,
            finished=finished,
        )

    def close(self) -> None:
        self._write_events(time.time())
        self._file.close()
        self._events.close()

    def _look_at_times(self) -> None:
        """Takes stock once there is enough time to divide; the first time at once."""
        reports = self._workers.values()
        spent = Spent(
            computing=sum(r.computing for r in reports),
            waiting_for_batches=sum(r.waiting_for_batches for r in reports),
            waiting_for_weights=sum(r.waiting_for_weights for r in reports),
            reducing=self._seconds["reducing"],
            optimizing=self._seconds["optimizing"],
        )
        if spent.of_workers - self._spent.of_workers > 1.0 or self._spent == Spent():
            self._shares = shares(self._spent, spent, len(reports)) or self._shares
            self._spent = spent

    def _record(self, step: int, scalars: Mapping[str, float]) -> None:
        now = time.time()
        self._file.write(json.dumps({"step": step, "time": now, **scalars}) + "\n")
        self._for_tensorboard |= {tag: (value, step) for tag, value in scalars.items()}
        if now >= self._next_event:
            self._next_event = now + EVENT_SECONDS
            self._write_events(now)

    def _write_events(self, now: float) -> None:
        for step in sorted({step for _, step in self._for_tensorboard.values()}):
            values = [
                Summary.Value(tag=tag, simple_value=value)
                for tag, (value, its) in self._for_tensorboard.items()
                if its == step
            ]
            self._events.add_event(Event(wall_time=now, step=step, summary=Summary(value=values)))
        self._for_tensorboard = {}


def _forget_after(path: Path, step: int) -> int:
    """Removes records of steps after `step`, and a last line that was cut; of a run that begins, all.

    Returns the newest version whose validation is among the rest.
    """
    if not path.exists():
        return -1
    validated = -1
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:
            break
        if 0 < step >= record["step"]:
            kept.append(line + "\n")
            if "validation_loss" in record:
                validated = record["step"]
    beside = path.with_suffix(".tmp")
    beside.write_text("".join(kept), encoding="utf-8")
    beside.rename(path)
    return validated

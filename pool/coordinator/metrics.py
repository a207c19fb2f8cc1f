"""What a run records about itself: metrics.jsonl and TensorBoard scalars in the run folder, and the report
that the supervisor shows. Records of steps that a resume does again are removed first.

What can't be written (a full disk) is said once and never stops the training: lines wait, points of curves are lost.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from pool.checkpoint.validations import Validation
from pool.coordinator.shares import Spent, shares
from pool.protocol.messages import RunReport, Shares, Times
from pool.telemetry.line_file import LineFile

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
EVENT_SECONDS = 0.2  # between two points of a TensorBoard curve, at least
EVENT_RETRY_SECONDS = 10.0  # until the next try when a point can't be written

Work = Literal["reducing", "optimizing"]


class Metrics:
    def __init__(
        self, run_dir: Path, step: int, steps: int, samples_per_step: int, say: Callable[[str], object]
    ) -> None:
        """`say`: to the user. Raises OSError if the run folder can't be read."""
        self._say = say
        self._said: set[Path] = set()  # what can't be written, as its user knows
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
        self._path = path
        self._file = LineFile(path)
        self._for_tensorboard: dict[str, tuple[float, int]] = {}  # tag -> newest value, and its step
        self._next_event = 0.0
        self._tensorboard = run_dir / TENSORBOARD
        self._events: EventFileWriter | None = None
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
        if version > self.validated_version:  # a resumed run may do one again
            self._record(version, {"validation_loss": loss})

    def report(
        self,
        step: int,
        checkpoint: int,
        epoch: int,
        learning_rate: float,
        *,
        best: Validation | None,
        finished: bool,
    ) -> RunReport:
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
            best_step=-1 if best is None else best.step,
            best_loss=math.nan if best is None else best.loss,
        )

    def close(self) -> None:
        self._write_events(time.time())
        self._file.close()
        if self._events is not None:
            with suppress(OSError):
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
        self._file.add(json.dumps({"step": step, "time": now, **scalars}))
        self._tell(self._path, self._file.error)
        self._for_tensorboard |= {tag: (value, step) for tag, value in scalars.items()}
        if now >= self._next_event:
            self._next_event = now + EVENT_SECONDS
            self._write_events(now)

    def _write_events(self, now: float) -> None:
        scalars, self._for_tensorboard = self._for_tensorboard, {}
        try:
            if self._events is None:
                self._events = EventFileWriter(str(self._tensorboard))
            for event in _events(scalars, now):
                self._events.add_event(event)
        except OSError as error:
            self._events = None
            self._next_event = now + EVENT_RETRY_SECONDS
            self._tell(self._tensorboard, error)
        else:
            self._tell(self._tensorboard, None)

    def _tell(self, path: Path, error: OSError | None) -> None:
        """Once, when it begins or has ended that something can't be written."""
        if error is not None and path not in self._said:
            self._said.add(path)
            self._say(f"{path} can't be written: {error.strerror or error}; training goes on")
        elif error is None and path in self._said:
            self._said.remove(path)
            self._say(f"{path} is written again")


def _events(scalars: Mapping[str, tuple[float, int]], now: float) -> Iterator[Event]:
    """One for each step that some of the newest values are of."""
    for step in sorted({step for _, step in scalars.values()}):
        values = [Summary.Value(tag=tag, simple_value=value) for tag, (value, its) in scalars.items() if its == step]
        yield Event(wall_time=now, step=step, summary=Summary(value=values))


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
    with suppress(OSError):  # then some steps are recorded twice
        beside.write_text("".join(kept), encoding="utf-8")
        beside.rename(path)
    return validated

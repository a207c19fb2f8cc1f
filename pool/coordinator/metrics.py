"""What a run records about itself: metrics.jsonl and TensorBoard scalars in the run folder, and the report
that the supervisor shows. Records of steps that a resume does again are removed first.

What can't be read or written (a full disk, foreign files of these names) is said once and never stops the training:
lines wait, points of curves are lost.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Literal

from pool.checkpoint.validations import Validation
from pool.coordinator.records import forget_after
from pool.coordinator.shares import Spent, shares
from pool.protocol.messages import RunReport, Shares, Times
from pool.telemetry.event_file import EventFile
from pool.telemetry.line_file import LineFile

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
EVENT_SECONDS = 0.2  # between two points of a TensorBoard curve, at least
EVENT_RETRY_SECONDS = 10.0  # until the next try when a point can't be written

# Tags of the curves by the field of metrics.jsonl: what comes before the slash is TensorBoard's group.
TAGS = {
    "loss": "loss/train",
    "validation_loss": "loss/validation",
    "learning_rate": "schedule/learning_rate",
    "epoch": "schedule/epoch",
    "samples_per_second": "speed/samples_per_second",
    "gradient_mb": "speed/gradient_mb",
    "compute": "time/compute",
    "loader": "time/loader",
    "reduce": "time/reduce",
    "optimizer": "time/optimizer",
    "weights": "time/weights",
}

Work = Literal["reducing", "optimizing"]


class Metrics:
    def __init__(
        self, run_dir: Path, step: int, steps: int, samples_per_step: int, say: Callable[[str], object]
    ) -> None:
        """`say`: to the user."""
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
        self.validated_version = -1  # `step` if its validation is on record, which need not be done again then
        try:
            self.validated_version = forget_after(path, step)
        except OSError as error:
            self._tell(path, error)
        self._path = path
        self._file = LineFile(path)
        self._for_tensorboard: dict[str, tuple[float, int]] = {}  # tag -> newest value, and its step
        self._next_event = 0.0
        self._tensorboard = run_dir / TENSORBOARD
        self._events = EventFile(self._tensorboard)
        self.validation_loss, self.validation_step = math.nan, 0
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
        self.validation_loss, self.validation_step = loss, version
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
            validation_step=self.validation_step,
            learning_rate=learning_rate,
            shares=self._shares,
            computed=sum((worker.computing for worker in self._workers.values()), 0.0),
            checkpoint=checkpoint,
            finished=finished,
            best_step=-1 if best is None else best.step,
            best_loss=math.nan if best is None else best.loss,
        )

    def close(self) -> None:
        self._write_events()
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
        self._file.add(json.dumps({"step": step, "time": time.time(), **scalars}))
        self._tell(self._path, self._file.error)
        self._for_tensorboard |= {TAGS[name]: (value, step) for name, value in scalars.items()}
        if (now := time.monotonic()) >= self._next_event:  # the other clock may be set back
            self._next_event = now + EVENT_SECONDS
            self._write_events()

    def _write_events(self) -> None:
        scalars, self._for_tensorboard = self._for_tensorboard, {}
        try:
            for step, values in _by_step(scalars).items():
                self._events.add(step, values)
        except OSError as error:
            self._next_event = time.monotonic() + EVENT_RETRY_SECONDS
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


def _by_step(scalars: Mapping[str, tuple[float, int]]) -> dict[int, dict[str, float]]:
    """The newest values by the step that each is of, in order."""
    steps = sorted({step for _, step in scalars.values()})
    return {step: {tag: value for tag, (value, its) in scalars.items() if its == step} for step in steps}

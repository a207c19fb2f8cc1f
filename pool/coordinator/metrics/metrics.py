"""The numbers of a run: a record of each step and validation for the sinks, and the report that the supervisor shows.

When a run is resumed, the records of steps that it does again are removed first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from loader.errors import SPACE_ERRORS
from loader.exit_codes import EXIT_RESOURCES
from pool.checkpoint.schedule import FINAL_MINUTES, FinalAttempts
from pool.checkpoint.validations import Validation
from pool.coordinator.metrics.jsonl import JsonLines
from pool.coordinator.metrics.shares import Spent, compute_shares
from pool.coordinator.metrics.sinks import Sinks, open_sinks
from pool.coordinator.scheduler.actions import Commit
from pool.errors import RunError
from pool.metrics.layout import LOSS, NET, PREFIX, TRAIN
from pool.metrics.medians import median_of, name_member_values
from pool.protocol.messages import MetricValue, NetNumbers, RunReport, Shares, Times

Activity = Literal["reducing", "optimizing", "waiting_for_machines"]


@dataclass(frozen=True)
class Traffic:
    """Bytes that were moved since the coordinator began."""

    read_nbytes: int = 0  # read from gradient slots
    sent_nbytes: int | None = None  # sent to each other machine; None: there is none


class Metrics:
    """Collects the numbers of a run, writes them to metrics.jsonl and the other sinks, and makes the supervisor's
    report."""

    def __init__(
        self,
        run_dir: Path,
        step: int,
        steps: int,
        samples_per_step: int,
        notify: Callable[[str], object],
        *,
        sinks: Sequence[str],
    ) -> None:
        """Opens the sinks, and removes their records of steps after `step`. `step`, `steps`: the step that this process
        begins with, and the run's last. `notify`: shows the run's user a line. `sinks`: names of sinks besides
        metrics.jsonl."""
        self._steps = steps
        self._samples_per_step = samples_per_step
        self._begin_step = step
        self._begin: float | None = None
        self._last_commit: float | None = None
        self._workers: dict[int, Times] = {}
        self._seconds: dict[Activity, float] = dict.fromkeys(get_args(Activity), 0.0)
        self._traffic = Traffic()
        self._spent = Spent()
        self._shares = Shares()
        lines = self._lines = JsonLines(run_dir)
        self._attempts = FinalAttempts()
        self._notify = notify
        self._sinks = Sinks((lines, *open_sinks(sinks, run_dir, notify)), notify)
        self._sinks.resume(step)
        self.validated_version = lines.validated  # `step` if its validation is recorded already, else -1
        self._validation_losses: tuple[float, ...] = ()
        self._validation_metrics: tuple[MetricValue, ...] = ()
        self._validation_step = 0
        self._losses: tuple[float, ...] = ()
        self._newest_net = -1  # the newest step for whose net numbers are written

    def update_times(self, index: int, times: Times) -> None:
        """Takes the times that a worker reports, by its index. The run's clock starts when the first worker has
        computed something."""
        before = self._workers.get(index, times)
        self._workers[index] = times
        if self._begin is None and times.computing > before.computing:
            self._begin = self._last_commit = time.monotonic()

    def add_step(self, commit: Commit, learning_rates: Sequence[float], traffic: Traffic) -> None:
        """Writes the record of a step that is done. `learning_rates`: those that the step was made with, one for each
        member (network of an ensemble)."""
        self._losses = tuple(fmean(losses) if losses else math.nan for losses in commit.losses)
        self._update_shares()
        scalars: dict[str, float] = {
            "loss": median_of(self._losses),
            "learning_rate": median_of(learning_rates),
            "epoch": commit.next_cursor.epoch,
            "samples_per_second": self._measure_speed(),
            **self._describe_traffic(traffic),
            "batches_ready": float(commit.batches_ready),
            **{f"{TRAIN}{metric.name}": metric.value for metric in commit.metrics},
            **vars(self._shares),
            **name_member_values("loss", self._losses),
            **name_member_values("learning_rate", learning_rates),
        }
        for metric in commit.metrics:
            scalars |= name_member_values(f"{TRAIN}{metric.name}", metric.values)
        self._sinks.add(commit.step + 1, scalars)

    def _measure_speed(self) -> float:
        """Returns the samples per second since the commit before; 0 for the first one. Called once for each commit."""
        now, before = time.monotonic(), self._last_commit
        self._last_commit = now
        if before is None or now <= before:
            return 0.0
        return self._samples_per_step / (now - before)

    def _describe_traffic(self, traffic: Traffic) -> dict[str, float]:
        """Returns the megabytes that were moved since the last call, as fields of a step's record."""
        before, self._traffic = self._traffic, traffic
        fields = {"gradient_mb": (traffic.read_nbytes - before.read_nbytes) / 1e6}
        if traffic.sent_nbytes is not None:
            fields["sent_mb"] = (traffic.sent_nbytes - (before.sent_nbytes or 0)) / 1e6
        return fields

    @contextmanager
    def measured(self, activity: Activity) -> Iterator[None]:
        """Counts the time inside as time that the coordinator spends on an activity, such as reducing."""
        begin = time.monotonic()
        yield
        self._seconds[activity] += time.monotonic() - begin

    def add_validation(self, version: int, losses: tuple[float, ...], metrics: Sequence[MetricValue] = ()) -> None:
        """Writes the record of a validation, unless an earlier process has written it. `version`: the validated
        weights. `losses`: one for each member (network of an ensemble)."""
        self._validation_losses, self._validation_step = losses, version
        self._validation_metrics = tuple(metrics)
        if version > self.validated_version:  # a resumed run may validate a version again
            values = {f"{PREFIX}{LOSS}": losses, **{f"{PREFIX}{metric.name}": metric.values for metric in metrics}}
            scalars = {name: median_of(each) for name, each in values.items()}
            for name, each in values.items():
                scalars |= name_member_values(name, each)
            self._sinks.add(version, scalars)

    def add_net_results(self, nets: Sequence[NetNumbers]) -> None:
        """Writes the numbers that the user's command has returned for exported nets (`train.on_export`). Those of each
        step are written once."""
        for net in nets:
            if net.step > self._newest_net:
                self._newest_net = net.step
                scalars = {f"{NET}{number.name}": number.value for number in net.numbers}
                for number in net.numbers:
                    scalars |= name_member_values(f"{NET}{number.name}", number.values)
                self._sinks.add(net.step, scalars)

    def report(
        self,
        step: int,
        checkpoint: int,
        epoch: int,
        learning_rate: float,
        best: Validation | None = None,
        best_metric: str = LOSS,
    ) -> RunReport:
        """Returns the progress of a run that goes on, for the supervisor. `checkpoint`: the step of the newest
        checkpoint. `best`: the best validation whose checkpoint is on disk. `best_metric`: the metric by which it is
        the best."""
        seconds = 0.0 if self._begin is None else time.monotonic() - self._begin
        return RunReport(
            step=step,
            steps=self._steps,
            epoch=epoch,
            samples_per_step=self._samples_per_step,
            samples=(step - self._begin_step) * self._samples_per_step,
            seconds=seconds,
            losses=self._losses,
            validation_losses=self._validation_losses,
            validation_step=self._validation_step,
            learning_rate=learning_rate,
            shares=self._shares,
            compute_seconds=sum((worker.computing for worker in self._workers.values()), 0.0),
            checkpoint=checkpoint,
            finished=False,
            best_step=-1 if best is None else best.step,
            best_value=math.nan if best is None else best.value(best_metric),
            best_metric=best_metric,
            validation_metrics=self._validation_metrics,
            noted=self._newest_net,
        )

    @property
    def unwritten(self) -> int:
        """The number of lines that are not in metrics.jsonl."""
        return self._lines.unwritten

    @property
    def waits_for_disk(self) -> bool:
        """True if nothing is left to do but to write lines for which the disk has no room."""
        return self._attempts.waits and self.unwritten > 0

    def finish(self) -> bool:
        """Writes the lines that wait, after the last step. Returns True when all are written that can be; until then it
        is to be called again.

        It waits only for room on the disk, because no other process has those lines. Raises RunError if there is none
        for an hour.
        """
        if self.unwritten == 0:
            return True
        now = time.monotonic()
        if not self._attempts.is_due(now):
            return False
        waited = self._attempts.waits
        try:
            self._lines.write_waiting()
        except OSError as error:
            if error.errno not in SPACE_ERRORS:
                return True  # `close` reports the error
            account = f"{self.unwritten} lines of {self._lines.path} can't be written: {error.strerror}"
            if not self._attempts.record_failure(now):
                raise RunError(f"{account}; tried for {FINAL_MINUTES} minutes", EXIT_RESOURCES) from None
            if not waited:
                self._notify(
                    f"{account}; the run keeps them in memory and tries again for {FINAL_MINUTES} minutes: make room. "
                    "To end without them: Ctrl-C twice"
                )
            return False
        return True

    def close(self) -> None:
        """Closes all sinks, which writes what they hold."""
        self._sinks.close()

    def _update_shares(self) -> None:
        """Computes what shares of the time the run's parts have taken since the last time. Does nothing until the
        workers have spent more than a second since then. The first call computes them at once."""
        reports = self._workers.values()
        spent = Spent(
            computing=sum(r.computing for r in reports),
            waiting_for_batches=sum(r.waiting_for_batches for r in reports),
            waiting_for_weights=sum(r.waiting_for_weights for r in reports),
            **self._seconds,
        )
        if spent.of_workers - self._spent.of_workers > 1.0 or self._spent == Spent():
            self._shares = compute_shares(self._spent, spent, len(reports)) or self._shares
            self._spent = spent

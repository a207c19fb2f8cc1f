"""Measures a run's speed: some real steps with one of its devices and with all, and the work that bounds them.

The numbers are the run's own metrics. So they include reading files, the loader, forward, backward, the exchange of
gradients, the optimizer, and messages between processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from pool.analysis.short_run import short_run
from pool.config.changes import Change
from pool.errors import RunError

STEPS = 60
WARM_UP = 20  # steps at the beginning that are not counted: memory is touched and kernels are compiled
MIN_SPEEDUP = 1.1  # several devices must reach this many times the speed of one
_BOUND_TEXTS = {
    "compute": "computing",
    "loader": "the loader",
    "reduce": "the coordinator's sums of gradients",
    "optimizer": "the coordinator's optimizer",
    "machines": "other machines",
    "weights": "the exchange",
}  # texts for people, by the names of shares of the workers' time
_MIN_SHARE = 0.05  # smallest share of the time that is shown


@dataclass(frozen=True)
class Speed:
    """Holds the speed of some devices, and how the workers' time is shared among kinds of work."""

    devices: tuple[str, ...]
    samples_per_second: float  # median over the steps
    shares: Mapping[str, float]  # of the workers' time, by name; as `pool.protocol.messages.Shares`

    @property
    def bound(self) -> str:
        """Returns the kind of work that takes most of the workers' time, as a text for the user."""
        return _BOUND_TEXTS[max(_BOUND_TEXTS, key=lambda name: self.shares[name])]

    def __str__(self) -> str:
        shares = sorted(((self.shares[name], text) for name, text in _BOUND_TEXTS.items()), reverse=True)
        bounds = ", ".join(f"{text} {share:.0%}" for share, text in shares if share >= _MIN_SHARE)
        return f"{self.samples_per_second:,.0f} samples/s, bound by {bounds or self.bound}"


def device_sets(devices: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the sets of devices to measure: the first one, and all if there are more."""
    return list(dict.fromkeys((tuple(devices[:1]), tuple(devices))))


def short_run_changes(devices: Sequence[str], run_dir: str) -> list[Change]:
    """Returns the changes that turn a config into that of a short run on these devices."""
    settings = {"pool.devices": list(devices), "schedule": {}, "data.validation_share": 0.0}
    return short_run(run_dir, STEPS, settings)


def compute_speed(devices: Sequence[str], steps: Sequence[Mapping[str, Any]]) -> Speed:
    """Computes the speed from a run's records of steps, without those of the warm-up. Raises RunError if there are too
    few."""
    measured = steps[WARM_UP:]
    if not measured:
        raise RunError(f"--measure: {len(steps)} steps are too few to say anything; {WARM_UP + 1} are needed")
    shares = {name: fmean(step.get(name, 0.0) for step in measured) for name in _BOUND_TEXTS}
    return Speed(tuple(devices), median(step["samples_per_second"] for step in measured), shares)


def format_speeds(speeds: Sequence[Speed]) -> Iterator[str]:
    """Yields lines that show the speeds to people. `speeds` has that of one device and, if there are more, that of
    all."""
    single, multiple = speeds[0], speeds[-1]
    yield f"{'with 1 device':22}{single}"
    if len(speeds) == 1:
        return
    speedup = 0.0
    if single.samples_per_second > 0:
        speedup = multiple.samples_per_second / single.samples_per_second
    yield f"{f'with {len(multiple.devices)} devices':22}{multiple}: {speedup:.2f} times as fast"
    if speedup < MIN_SPEEDUP:
        yield f"{'':22}more than one device does not pay here: {multiple.bound} bounds the step"

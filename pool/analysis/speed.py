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
PAYS = 1.1  # several devices must reach this many times the speed of one
_BOUNDS = {
    "compute": "computing",
    "loader": "the loader",
    "reduce": "the coordinator's sums of gradients",
    "optimizer": "the coordinator's optimizer",
    "machines": "other machines",
    "weights": "the exchange",
}  # texts for people, by the names of shares of the workers' time
_LEAST = 0.05  # smallest share of the time that is shown


@dataclass(frozen=True)
class Speed:
    """The speed of some devices, and how the workers' time is shared among kinds of work."""

    devices: tuple[str, ...]
    samples_per_second: float  # median over the steps
    shares: Mapping[str, float]  # of the workers' time, by name; as `pool.protocol.messages.Shares`

    @property
    def bound(self) -> str:
        """The kind of work that takes most of the workers' time, as a text for people."""
        return _BOUNDS[max(_BOUNDS, key=lambda name: self.shares[name])]

    def __str__(self) -> str:
        named = sorted(((self.shares[name], words) for name, words in _BOUNDS.items()), reverse=True)
        said = ", ".join(f"{words} {share:.0%}" for share, words in named if share >= _LEAST)
        return f"{self.samples_per_second:,.0f} samples/s, bound by {said or self.bound}"


def device_sets(devices: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the sets of devices to measure: the first one, and all if there are more."""
    return list(dict.fromkeys((tuple(devices[:1]), tuple(devices))))


def changes_for(devices: Sequence[str], run_dir: str) -> list[Change]:
    """Returns the changes that turn a config into that of a short run on these devices."""
    others = {"pool.devices": list(devices), "schedule": {}, "data.validation_share": 0.0}
    return short_run(run_dir, STEPS, others)


def speed_of(devices: Sequence[str], steps: Sequence[Mapping[str, Any]]) -> Speed:
    """Computes the speed from a run's records of steps, without those of the warm-up. Raises RunError if there are too
    few."""
    counted = steps[WARM_UP:]
    if not counted:
        raise RunError(f"--measure: {len(steps)} steps are too few to say anything; {WARM_UP + 1} are needed")
    shares = {name: fmean(step.get(name, 0.0) for step in counted) for name in _BOUNDS}
    return Speed(tuple(devices), median(step["samples_per_second"] for step in counted), shares)


def lines(speeds: Sequence[Speed]) -> Iterator[str]:
    """Yields lines that show the speeds to people. `speeds` has that of one device and, if there are more, that of
    all."""
    one, every = speeds[0], speeds[-1]
    yield f"{'with 1 device':22}{one}"
    if len(speeds) == 1:
        return
    times = every.samples_per_second / one.samples_per_second if one.samples_per_second > 0 else 0.0
    yield f"{f'with {len(every.devices)} devices':22}{every}: {times:.2f} times as fast"
    if times < PAYS:
        yield f"{'':22}more than one device does not pay here: {every.bound} bounds the step"

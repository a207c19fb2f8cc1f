"""Warns the user once if the workers of a run often wait for batches. Pure: decides from the coordinator's reports."""

from __future__ import annotations

from statistics import fmean

from loader.cores import allowed_cores
from pool.protocol.messages import RunReport

BEGIN, END = 10.0, 20.0  # seconds of the run that are measured: earlier, memory is first used and kernels compiled
MIN_SHARE = 0.2  # smallest share of the workers' time that is worth a warning


class SlowLoader:
    """Measures the share of their time in which workers wait for batches, and advises the user if it is large."""

    def __init__(self, threads: int) -> None:
        """Begins to measure. `threads`: number of threads that decode data."""
        self._threads = threads
        self._shares: list[float] = []  # share of the workers' time, by report
        self._is_finished = False  # the measurement is over

    def update(self, report: RunReport) -> str:
        """Measures by a report of the coordinator. Returns a warning for the user, at most once in a run, else an empty
        string."""
        if self._is_finished or report.seconds < BEGIN:
            return ""
        if report.seconds < END:
            self._shares.append(report.shares.loader)
            return ""
        self._is_finished = True
        if not self._shares:
            return ""
        mean_share = fmean(self._shares)
        if mean_share < MIN_SHARE:
            return ""
        samples_per_second = report.samples / report.seconds
        return (
            f"the workers wait for batches in {mean_share:.0%} of their time: the loader gives "
            f"{samples_per_second:,.0f} samples/s with {self._threads} threads; {self._format_advice()}"
        )

    def _format_advice(self) -> str:
        """Returns what makes loading faster. More threads are advised only if the run may use more cores."""
        cores = allowed_cores()
        more_threads = f"raise data.threads (this run may use {cores} cores), or " if cores > self._threads else ""
        return f"{more_threads}read from a faster disk, or drop filters"

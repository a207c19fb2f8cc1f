"""Warns the user once if the workers of a run often wait for batches. Pure: decides from the coordinator's reports."""

from __future__ import annotations

from statistics import fmean

from loader.cores import allowed_cores
from pool.protocol.messages import RunReport

BEGIN, END = 10.0, 20.0  # seconds of the run that are measured: earlier, memory is first used and kernels compiled
LEAST = 0.2  # least share of the workers' time that is worth a line


class SlowLoader:
    """Measures the share of their time in which workers wait for batches, and advises the user if it is large."""

    def __init__(self, threads: int) -> None:
        """Begins to measure. `threads`: number of threads that decode data."""
        self._threads = threads
        self._shares: list[float] = []
        self._judged = False

    def report(self, report: RunReport) -> str:
        """Receives a report of the coordinator. Returns a line for the user, at most once in a run, else an empty
        string."""
        if self._judged or report.seconds < BEGIN:
            return ""
        if report.seconds < END:
            self._shares.append(report.shares.loader)
            return ""
        self._judged = True
        if not self._shares or (share := fmean(self._shares)) < LEAST:
            return ""
        rate = report.samples / report.seconds
        return (
            f"the workers wait for batches in {share:.0%} of their time: the loader gives {rate:,.0f} samples/s with "
            f"{self._threads} threads; {self._advice()}"
        )

    def _advice(self) -> str:
        """Returns what makes loading faster. More threads are advised only if the run may use more cores."""
        cores = allowed_cores()
        more = f"raise data.threads (this run may use {cores} cores), or " if cores > self._threads else ""
        return f"{more}read from a faster disk, or drop filters"

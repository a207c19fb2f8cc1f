"""A run whose workers wait for batches is told to its user, once. Pure: decides from the coordinator's reports."""

from __future__ import annotations

from statistics import fmean

from loader.cores import allowed_cores
from pool.protocol.messages import RunReport

BEGIN, END = 10.0, 20.0  # seconds of the run that count: before them memory is touched and kernels are compiled
LEAST = 0.2  # share of the workers' time that is worth a line


class SlowLoader:
    def __init__(self, threads: int) -> None:
        """`threads`: that the loader decodes on."""
        self._threads = threads
        self._shares: list[float] = []
        self._judged = False

    def report(self, report: RunReport) -> str:
        """Returns one line for the user, at most once in a run; empty if there is nothing to say."""
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
        cores = allowed_cores()
        more = f"raise data.threads (this run may use {cores} cores), or " if cores > self._threads else ""
        return f"{more}read from a faster disk, or drop filters"

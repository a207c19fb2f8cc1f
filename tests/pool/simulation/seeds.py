"""Simulated runs in numbers: `python -m tests.pool.simulation --seeds 200000`, over all cores.

A seed that fails is printed with what failed and the command that shows it again; it belongs into REGRESSION_SEEDS
of test_simulation.py. Runs on several machines: `--first 1000000`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from tests.pool.simulation.cluster import Cluster
from tests.pool.simulation.setup import setup_of
from tests.pool.simulation.world import World

SEVERAL = 1_000_000  # seeds from here on are runs on several machines
PART = 100  # seeds a process takes at a time


@dataclass(frozen=True)
class Failure:
    seed: int
    why: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.why}\n  again: python -m tests.pool.simulation --first {self.seed} --seeds 1"


def simulate(seed: int) -> None:
    """One run. Raises AssertionError if it is not as it must be."""
    run_of(seed).run()


def run_of(seed: int) -> World | Cluster:
    """Returns the run of a seed, on one machine or, from SEVERAL on, on several."""
    if seed < SEVERAL:
        return World(setup_of(seed), seed)
    return Cluster(setup_of(seed), seed, machines=2 + seed % 3)


def failures(seeds: range) -> list[Failure]:
    found = []
    for seed in seeds:
        try:
            simulate(seed)
        except Exception as error:  # whatever a broken book raises is a failure
            place = traceback.extract_tb(error.__traceback__)[-1]
            found.append(Failure(seed, f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"))
    return found


def simulate_all(first: int, count: int, processes: int) -> Iterator[tuple[int, list[Failure]]]:
    """After each part: how many seeds are done, and which of the part failed."""
    size = PART if first < SEVERAL else PART // 10
    parts = [range(begin, min(begin + size, first + count)) for begin in range(first, first + count, size)]
    done = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for part, found in zip(parts, pool.imap(failures, parts), strict=True):
            done += len(part)
            yield done, found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pool.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: %(default)s)")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one a core")
    arguments = parser.parse_args()
    if arguments.seeds == 1:
        simulate(arguments.first)  # with the whole traceback
        return 0
    begin = time.monotonic()
    failed = 0
    for done, found in simulate_all(arguments.first, arguments.seeds, arguments.processes):
        failed += len(found)
        for failure in found:
            sys.stdout.write(f"{failure}\n")
        rate = done / (time.monotonic() - begin)
        sys.stderr.write(f"\r{done} of {arguments.seeds} seeds, {failed} failed, {rate:.0f} seeds/s ")
        if failed >= arguments.failures:
            break
    sys.stderr.write("\n")
    return 1 if failed else 0

"""What a run is said to be bound by."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from pool.coordinator.metrics.shares import Spent, compute_shares
from pool.protocol.messages import Shares


def close(found: Shares | None, expected: Shares) -> bool:
    return found is not None and asdict(found) == pytest.approx(asdict(expected))


def test_without_time_there_is_no_answer() -> None:
    assert compute_shares(Spent(), Spent(), 2) is None


def test_the_shares_add_up_to_the_workers_time() -> None:
    now = Spent(computing=6.0, waiting_for_batches=1.0, waiting_for_weights=3.0, reducing=0.5, optimizing=0.25)
    found = compute_shares(Spent(), now, 2)
    assert close(found, Shares(compute=0.6, loader=0.1, reduce=0.1, optimizer=0.05, weights=0.15))


def test_waiting_for_other_machines_is_a_share_of_its_own() -> None:
    now = Spent(computing=4.0, waiting_for_weights=6.0, optimizing=1.0, waiting_for_machines=1.5)
    assert close(compute_shares(Spent(), now, 2), Shares(compute=0.4, optimizer=0.2, machines=0.3, weights=0.1))


def test_work_that_nobody_waited_for_bounds_nothing() -> None:
    """The coordinator worked for 4 seconds, 8 of two workers, of which they waited for one."""
    now = Spent(computing=9.0, waiting_for_weights=1.0, reducing=3.0, optimizing=1.0)
    found = compute_shares(Spent(), now, 2)
    assert close(found, Shares(compute=0.9, reduce=0.075, optimizer=0.025))


def test_only_the_time_since_the_last_look_counts() -> None:
    before = Spent(computing=100.0, waiting_for_batches=50.0)
    assert compute_shares(before, Spent(computing=101.0, waiting_for_batches=51.0), 1) == Shares(
        compute=0.5, loader=0.5
    )


def test_a_worker_that_began_anew_takes_no_time_back() -> None:
    before = Spent(computing=100.0, waiting_for_batches=5.0)
    found = compute_shares(before, Spent(computing=99.0, waiting_for_batches=10.0), 1)
    assert found is not None
    assert all(share >= 0 for share in asdict(found).values())

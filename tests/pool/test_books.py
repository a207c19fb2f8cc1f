"""The coordinator's books, driven by the simulation: whatever happens, every step is the same step."""

from __future__ import annotations

import itertools

import pytest

from pool.coordinator.actions import Action, Commit, End, Fold, OrderWorker
from pool.coordinator.books import Books
from pool.coordinator.rules import Rules
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import BatchReport, CursorState, FeederReport, StreamReport, WorkerOrders, WorkerReport
from tests.pool.simulation import START, Setup, Simulation

SEEDS = 2000


def rules(
    steps: int = 6, batches: int = 2, buckets: int = 2, slots: int = 2, validate_every: int = 0, buffers: bool = False
) -> Rules:
    return Rules(
        steps=steps,
        batches_per_step=batches,
        num_buckets=buckets,
        gradient_slots=slots,
        has_buffers=buffers,
        validate_every=validate_every,
        validation_batches=3,
        on_bad_batch="skip",
    )


@pytest.mark.parametrize("part", range(4))
def test_every_run_ends_with_every_batch_folded_once_in_order_whoever_dies(part: int) -> None:
    shapes = list(itertools.product((1, 2, 3, 5), (1, 2, 3), (1, 2), (0, 2), (False, True)))
    for seed in range(part, SEEDS, 4):
        batches, workers, slots, validate_every, buffers = shapes[seed % len(shapes)]
        setup = Setup(
            rules(batches=batches, slots=slots, validate_every=validate_every, buffers=buffers),
            workers=workers,
            ring_slots=batches + 1 + seed % 3,
            deaths=seed % 7,
            unsound=frozenset((0, 3, 4, 5)[: seed % 5]) if seed % 3 == 0 else frozenset(),
        )
        simulation = Simulation(setup, seed)
        try:
            simulation.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert [commit.step for commit in simulation.commits] == list(range(6))
        assert simulation.left_out >= {batch for batch in setup.unsound if batch < 6 * batches}
        expected = [0, 2, 4, 6] if validate_every else []
        assert [validated.version for validated in simulation.validations] == expected


def filled(books: Books, feeder: Peer, count: int) -> None:
    cursors = tuple(CursorState(i, 0, 0, i) for i in range(count + 1))
    books.feeder_report(feeder, FeederReport(StreamReport(1, 0, cursors), None))


def orders_of(actions: list[Action], peer: Peer) -> WorkerOrders:
    return next(a.orders for a in reversed(actions) if isinstance(a, OrderWorker) and a.peer == peer)


def test_a_worker_gets_two_batches_at_most_and_none_beyond_the_next_step() -> None:
    books = Books(rules(batches=1, slots=4), 0, START, 1)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    books.feeder_joined(feeder)
    filled(books, feeder, 8)
    actions = books.worker_joined(worker)
    assert [a.batch for a in orders_of(actions, worker).assignments] == [0, 1]


def test_what_a_dead_worker_finished_is_kept_and_what_it_had_begun_is_given_away() -> None:
    books = Books(rules(steps=1, batches=2, buckets=1), 0, START, 1)
    feeder, first, second = Peer(FEEDER), Peer(WORKER, 0), Peer(WORKER, 1)
    books.feeder_joined(feeder)
    books.worker_joined(first)
    books.worker_joined(second)
    filled(books, feeder, 3)
    done = orders_of(books.say_again(), first).assignments[0]
    books.worker_report(first, WorkerReport((BatchReport(done, (0,), (), True, 0.5, ""),), 0, 0, 0))
    assert books.worker_lost(first) == []  # batch 0 stays where it lies, batch 1 is the other's
    lost = books.worker_lost(second)
    assert lost == []
    back = Peer(WORKER, 1, 2)
    actions = books.worker_joined(back)
    again = orders_of(actions, back).assignments
    assert [a.batch for a in again] == [1]
    actions = books.worker_report(back, WorkerReport((BatchReport(again[0], (0,), (), True, 1.5, ""),), 0, 0, 0))
    folds = [a for a in actions if isinstance(a, Fold)]
    assert [source.batch for source in folds[0].sources] == [0, 1]
    assert [source.worker for source in folds[0].sources] == [0, 1]
    assert [a.losses for a in actions if isinstance(a, Commit)] == [(0.5, 1.5)]


def test_draining_finishes_the_step_that_was_begun_and_begins_no_other() -> None:
    books = Books(rules(steps=9, batches=1, buckets=1), 0, START, 1)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    books.feeder_joined(feeder)
    books.worker_joined(worker)
    filled(books, feeder, 5)
    assignment = orders_of(books.say_again(), worker).assignments[0]
    assert End() not in books.drain()
    actions = books.worker_report(worker, WorkerReport((BatchReport(assignment, (0,), (), True, 1.0, ""),), 0, 0, 0))
    assert any(isinstance(a, Commit) for a in actions)
    assert End() in actions
    assert books.step == 1


def test_draining_before_the_first_batch_ends_at_once() -> None:
    books = Books(rules(), 0, START, 1)
    assert books.drain() == [End()]

"""When validations end a run: a function of what a checkpoint holds (I9)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pool.checkpoint.validations import NONE, Goal, Validation, Validations, comparable
from pool.coordinator.scheduler.early_stopping import EarlyStopping

AUC = Goal("auc", "max")


def after(values: Sequence[float], goal: Goal) -> Validations:
    """Validations of versions 0, 5, 10, ... with these numbers."""
    known = NONE
    for number, value in enumerate(values):
        loss, auc = (value, -value) if goal.metric == "loss" else (-value, value)
        known = known.with_results([Validation(5 * number, loss, {"auc": auc})], goal)
    return known


@pytest.mark.parametrize(
    ("values", "since", "record"),
    [
        ([9.0], 0, None),
        ([9.0, 1.0], 0, 5),
        ([9.0, 1.0, 2.0, 2.0, 2.0], 2, 10),
        ([9.0, 1.0, 1.0, 0.5], 2, 5),
        ([9.0, 3.0, math.nan, 4.0, 1.0], 1, 15),
        ([9.0, math.nan, math.inf], 2, None),
    ],
    ids=["what a run begins with", "the first", "a draw is no improvement", "worse", "not finite", "never finite"],
)
def test_validations_since_the_best_one_are_counted(values: list[float], since: int, record: int | None) -> None:
    known = after(values, AUC)
    assert (known.since, known.record and known.record.step) == (since, record)
    lower = after([-value for value in values], Goal())
    assert (lower.since, lower.record and lower.record.step) == (since, record)


def test_a_run_stops_with_the_validation_that_makes_it_so_many_and_before_its_last_step() -> None:
    known = after([9.0, 1.0, 0.0, 0.5], AUC)
    assert EarlyStopping(2, AUC, 100).find_stopping(known, 15, [0])
    assert not EarlyStopping(3, AUC, 100).find_stopping(known, 15, [0])
    assert not EarlyStopping(None, AUC, 100).find_stopping(known, 15, [0])
    assert not EarlyStopping(2, AUC, 15).find_stopping(known, 15, [0]), "it has ended anyway"
    assert not EarlyStopping(2, AUC, 100).find_stopping(known, 16, [0]), (
        "resumed with more patience, and then with less again"
    )
    assert not EarlyStopping(1, AUC, 100).find_stopping(NONE, 0, [0])


def test_the_user_is_told_why() -> None:
    stopping = EarlyStopping(2, AUC, 100)
    assert stopping.describe(after([9.0, 1.0, 0.0, 0.5], AUC)) == (
        "stopped early at step 15: 2 validations without a better auc than the 1.000000 of step 5 "
        "(train.early_stopping = 2)"
    )
    assert stopping.describe_resumed(after([9.0, math.nan, math.nan], AUC)) == (
        "stopped early at step 10: auc was finite in none of 2 validations (train.early_stopping = 2); to go on raise "
        "it, or leave it out"
    )


def test_members_that_stop_together_are_told_in_a_line() -> None:
    known = NONE
    for step, aucs in enumerate([(9.0,) * 4, (1.0, 1.0, 2.0, 5.0), (0.5, 0.5, 0.0, 6.0)]):
        known = known.with_results([Validation(5 * step, -auc, {"auc": auc}) for auc in aucs], AUC)
    stopping = EarlyStopping(1, AUC, 100)
    assert (stops := stopping.find_stopping(known, 10, range(4))) == {0, 1, 2}
    better = "1 validation without a better auc than the"
    assert stopping.describe(known, stops) == (
        f"members 0 to 2 stopped early at step 10: members 0, 1: {better} 1.000000 of step 5; member 2: {better} "
        "2.000000 of step 5 (train.early_stopping = 1)"
    )
    assert stopping.describe(known, {1}) == (
        f"member 1 stopped early at step 10: {better} 1.000000 of step 5 (train.early_stopping = 1)"
    )


def test_a_checkpoint_that_is_gone_does_not_change_what_is_an_improvement() -> None:
    known = after([9.0, 3.0, 1.0], AUC)
    without = Validations(known.newest, None, known.record, known.since)
    found = without.with_results([Validation(15, 0.0, {"auc": 2.0})], AUC)
    assert (found.since, found.best and found.best.step) == (2, 15)


def test_another_metric_measures_something_else() -> None:
    old = {"data": {"validation": ["a"]}, "train": {"validation_batches": 4}, "loss": {}}
    now = {**old, "train": {"validation_batches": 4, "best_metric": "loss"}}
    assert comparable(old, now), "a checkpoint older than the key"
    assert not comparable(now, {**old, "train": {"validation_batches": 4, "best_metric": "auc"}})

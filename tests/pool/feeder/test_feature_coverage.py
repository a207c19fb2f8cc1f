"""What share of a validation's features training never sees: known after a whole pass of each, whatever died before."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.stream.interface import Cursor, Filled
from loader.stream.schema import BatchSchema, DenseField, SparseField
from loader.stream.slots import Slot, allocate_slots, write_batch
from pool.config.load import parse_config
from pool.feeder.feature_coverage import FeatureCoverage, compares_features
from pool.metrics.feature_uses import UntrainedShare
from pool.metrics.validation_pass import ValidationPass
from pool.process.start import FeederStart
from pool.protocol.identity import FEEDER, Peer
from tests.pool.supervisor.test_data_files import run_on

BATCH = 2
SCHEMA = BatchSchema(
    BATCH, (SparseField("user", 100, 2), SparseField("item", 70_000, 1)), (DenseField("label", "float32"),)
)
PER_EPOCH = 3
TRAINING: list[list[tuple[int, ...]]] = [
    [(1, 2), (3,)],
    [(4,), (5,)],
    [(6, 7), (1,)],
]  # users of an epoch
VALIDATION = ValidationPass(samples=3, batch_size=BATCH, ends=True)
VALIDATED: list[list[tuple[int, ...]]] = [[(1, 50), (51,)], [(50,)]]
ITEM = 69_999
EXPECTED = (UntrainedShare("user", 3, 2, 4, 3),)


def slot_with(users: list[tuple[int, ...]], number: int = 0) -> Slot:
    schema = replace(SCHEMA, batch_size=len(users))
    (slot,) = allocate_slots(schema, 1)
    samples = len(users)
    rows = {
        "user": (np.cumsum([0, *map(len, users)]), np.concatenate([np.array(bag, int) for bag in users])),
        "item": (np.arange(samples + 1), np.full(samples, ITEM)),
    }
    write_batch(schema, slot, number, rows, {"label": np.zeros(samples, np.float32)})
    return slot


def cursor(batch: int) -> Cursor:
    epoch, entry = divmod(batch, PER_EPOCH)
    return Cursor(batch, epoch, 0, entry)


def filled(batch: int) -> Filled:
    return Filled(0, batch, cursor(batch), cursor(batch + 1))


def train(coverage: FeatureCoverage, batches: range) -> None:
    for batch in batches:
        coverage.add_training(filled(batch), slot_with(TRAINING[batch % PER_EPOCH], batch))


def validate(coverage: FeatureCoverage, batches: range = range(VALIDATION.batches)) -> None:
    for batch in batches:
        coverage.add_validation(filled(batch), slot_with(VALIDATED[batch], batch))


@pytest.mark.parametrize("validation_first", [True, False])
def test_known_after_a_whole_pass_of_each_in_any_order(validation_first: bool) -> None:
    coverage = FeatureCoverage(SCHEMA, VALIDATION)
    if validation_first:
        validate(coverage)
    train(coverage, range(PER_EPOCH - 1))
    assert coverage.shares() is None
    train(coverage, range(PER_EPOCH - 1, PER_EPOCH))
    if not validation_first:
        validate(coverage, range(1))
        assert coverage.shares() is None
        validate(coverage, range(1, 2))
    assert coverage.shares() == EXPECTED


@pytest.mark.parametrize(
    ("seen", "is_known"),
    [
        ([range(1, 5)], False),  # neither epoch as a whole
        ([range(1, 6)], True),
        ([range(3, 6)], True),
        ([range(2), range(2, 3)], True),
        ([range(2), range(3)], True),  # what a restarted coordinator gets again
        ([range(1), range(2, 5)], False),  # a gap
        ([range(1), range(2, 6)], True),
    ],
)
def test_a_feeder_that_begins_anywhere_waits_for_a_whole_epoch(seen: list[range], is_known: bool) -> None:
    coverage = FeatureCoverage(SCHEMA, VALIDATION)
    validate(coverage)
    for batches in seen:
        train(coverage, batches)
    assert coverage.shares() == (EXPECTED if is_known else None)


def test_a_validation_that_is_not_seen_from_its_beginning_does_not_count() -> None:
    coverage = FeatureCoverage(SCHEMA, VALIDATION)
    train(coverage, range(PER_EPOCH))
    validate(coverage, range(1, 2))
    assert coverage.shares() is None
    for _ in range(2):  # a second one adds nothing
        validate(coverage)
        assert coverage.shares() == EXPECTED


def test_known_before_the_pass_ends_if_all_shares_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pool.feeder.feature_coverage.COMPARE_AT", 1)
    coverage = FeatureCoverage(SCHEMA, ValidationPass(BATCH, BATCH))
    coverage.add_validation(filled(0), slot_with([(1, 2), (3,)]))
    assert coverage.shares() is None
    train(coverage, range(1))
    assert coverage.shares() == ()


users = st.lists(st.integers(0, 99), max_size=2, unique=True).map(lambda drawn: tuple(sorted(drawn)))
batches = st.lists(st.lists(users, min_size=BATCH, max_size=BATCH), min_size=1, max_size=4)


@given(batches, batches)
def test_shares_are_those_of_plain_counting(
    training: list[list[tuple[int, ...]]], validation: list[list[tuple[int, ...]]]
) -> None:
    coverage = FeatureCoverage(SCHEMA, ValidationPass(BATCH * len(validation), BATCH))
    last = len(training) - 1
    for number, batch in enumerate(training):
        then = Cursor(number + 1, int(number == last), 0, 0 if number == last else number + 1)
        coverage.add_training(Filled(0, number, Cursor(number, 0, 0, number), then), slot_with(batch, number))
    for number, batch in enumerate(validation):
        coverage.add_validation(filled(number), slot_with(batch, number))
    trained = {user for batch in training for bag in batch for user in bag}
    uses = Counter(user for batch in validation for bag in batch for user in bag)
    others = {user: count for user, count in uses.items() if user not in trained}
    shares = coverage.shares()
    assert shares is not None
    expected = UntrainedShare("user", len(uses), len(others), uses.total(), sum(others.values()))
    assert shares == (() if expected.is_small else (expected,))


def feeder_start(file: Path, source: str, validate_every: int) -> FeederStart:
    file.touch()
    tree = {
        "task": "tests.support.toy",
        "data": {"source": source, "batch_size": 8},
        "train": {"validate_every": validate_every},
    }
    start = run_on([file], config=parse_config(tree, "test")).start_document(Peer(FEEDER))
    assert isinstance(start, FeederStart)
    return start


def test_features_are_compared_where_all_is_seen_and_ids_may_be_spelled_otherwise(tmp_path: Path) -> None:
    start = feeder_start(tmp_path / "a", "rows", 1)
    assert compares_features(start)
    assert not compares_features(replace(start, share=(0, 0)))  # one of several machines
    assert not compares_features(replace(start, files={**start.files, "train": ()}))  # made-up rows
    assert not compares_features(feeder_start(tmp_path / "a", "rows", 0))
    assert not compares_features(feeder_start(tmp_path / "a", "chess", 1))

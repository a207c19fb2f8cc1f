"""AUC, log-loss and accuracy against the definitions, pair by pair and sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pool.metrics.classification import AUC, Accuracy, GroupedAUC, LogLoss
from pool.metrics.metric import Metric

Samples = list[tuple[float, int, float]]  # score, label, weight

SCORES = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 3.0])
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.0**-60, 2.0**60])  # float64 holds no sum of the last two
SAMPLES = st.lists(st.tuples(SCORES, st.integers(0, 1), WEIGHTS), max_size=30)


def arrays(samples: Samples) -> dict[str, npt.NDArray[Any]]:
    columns = np.array(samples, np.float32).reshape(-1, 3)
    return dict(zip(("scores", "labels", "weights"), columns.T, strict=True))


def auc_of_pairs(samples: Samples) -> float:
    total = right = 0.0
    for score, label, weight in samples:
        for other, its_label, its_weight in samples:
            if label == 1 and its_label == 0:
                total += weight * its_weight
                right += weight * its_weight * (1.0 if score > other else 0.5 if score == other else 0.0)
    return right / total if total else math.nan


def same(one: float, other: float) -> bool:
    return one == pytest.approx(other, rel=1e-12, nan_ok=True)


@given(SAMPLES)
def test_auc_is_the_share_of_pairs_in_the_right_order(samples: Samples) -> None:
    assert same(AUC(weights="weights").value(arrays(samples)), auc_of_pairs(samples))
    alike = [(score, label, 1.0) for score, label, _ in samples]
    assert same(AUC().value(arrays(samples)), auc_of_pairs(alike))


def test_auc_of_scores_that_are_not_a_number_is_none() -> None:
    assert math.isnan(AUC().value(arrays([(math.nan, 1, 1.0), (0.0, 0, 1.0)])))


@given(SAMPLES, st.lists(st.sampled_from([-5, 0, 3, 1 << 40]), min_size=30, max_size=30), st.booleans())
@example([(0.0, 0, 2.0**60), (0.5, 1, 2.0**-60), (0.0, 0, 2.0**-60)], [-5] + [0] * 29, True)
def test_grouped_auc_is_the_weighed_mean_of_the_groups_own(samples: Samples, groups: list[int], weighed: bool) -> None:
    if not weighed:
        samples = [(score, label, 1.0) for score, label, _ in samples]
    own = np.array(groups[: len(samples)], np.int64)
    total = share = 0.0
    for group in set(groups):
        inside = [sample for sample, its in zip(samples, groups, strict=False) if its == group]
        if not math.isnan(auc := auc_of_pairs(inside)):
            weight = sum(sample[2] for sample in inside)
            total, share = total + weight * auc, share + weight
    metric = GroupedAUC("groups", weights="weights" if weighed else None)
    assert same(metric.value({**arrays(samples), "groups": own}), total / share if share else math.nan)


def test_auc_of_groups_with_scores_that_are_not_a_number_is_none() -> None:
    bad = {**arrays([(math.nan, 1, 1.0), (0.0, 0, 1.0)]), "groups": np.zeros(2, np.int64)}
    assert math.isnan(GroupedAUC("groups").value(bad))


def test_auc_is_exact_for_many_samples() -> None:
    """Half of the pairs are ties: the numbers that are added are far below 2^53."""
    count = 200_000
    labels = np.arange(count) % 2
    found = AUC().value({"scores": (np.arange(count) // 2 % 2).astype(np.float32), "labels": labels.astype(np.float32)})
    assert found == 0.5


@given(SAMPLES)
def test_log_loss_and_accuracy_of_two_classes(samples: Samples) -> None:
    total = sum(weight for _, _, weight in samples)
    losses = [weight * math.log1p(math.exp(-score if label else score)) for score, label, weight in samples]
    right = [weight * ((score > 0) == (label == 1)) for score, label, weight in samples]
    given_arrays = arrays(samples)
    assert same(LogLoss(weights="weights").value(given_arrays), sum(losses) / total if total else math.nan)
    assert same(Accuracy(weights="weights").value(given_arrays), sum(right) / total if total else math.nan)


def test_log_loss_of_sure_scores_is_finite() -> None:
    found = LogLoss().value(arrays([(1e30, 0, 1.0), (-700.0, 1, 1.0)]))
    assert found == pytest.approx((np.float32(1e30) + 700.0) / 2)
    scores = np.array([[1000.0, -1000.0, 0.0]], np.float32)
    assert LogLoss(classes=3).value({"scores": scores, "labels": np.array([1.0], np.float32)}) == 2000.0


def test_log_loss_and_accuracy_of_more_classes() -> None:
    random = np.random.default_rng(1)
    scores = random.normal(size=(50, 4)).astype(np.float32)
    labels = random.integers(0, 4, 50)
    p = np.exp(scores.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    given_arrays = {"scores": scores, "labels": labels.astype(np.float32)}
    assert same(LogLoss(classes=4).value(given_arrays), float(-np.log(p[np.arange(50), labels]).mean()))
    assert same(Accuracy(classes=4).value(given_arrays), float((p.argmax(axis=1) == labels).mean()))


@pytest.mark.parametrize("metric", [AUC("a", "b"), LogLoss("a", "b", "c"), LogLoss(classes=5), Accuracy()])
def test_each_is_a_metric_and_says_what_it_needs(metric: Metric) -> None:
    assert isinstance(metric, Metric)
    assert {column.dtype for column in metric.columns.values()} == {"float32"}
    assert metric.best in ("min", "max")

"""Metrics of a task that predicts classes: AUC, log-loss and accuracy. All are computed in float64 over all samples at
once.

Each metric takes the names of the arrays that it reads, so that several can share them: `scores` are raw outputs of the
model (logits), `labels` class numbers, `weights` sample weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.metrics.metric import Best, Column

Arrays = Mapping[str, npt.NDArray[Any]]
_Float64 = npt.NDArray[np.float64]


class AUC:
    """Area under the ROC curve of a binary classifier: the share of pairs of a positive and a negative sample in which
    the positive one has the higher score. A tie counts half. It is computed exactly, by the Mann-Whitney statistic
    (Hanley and McNeil 1982). With weights a pair counts as the product of both samples' weights.

    Labels above 0.5 are positive. The value is NaN without a positive or without a negative sample, or if a score is
    NaN.
    """

    best: Best = "max"

    def __init__(self, scores: str = "scores", labels: str = "labels", weights: str | None = None) -> None:
        """Takes the names of the arrays, each [samples] float32. `weights` is None if all samples count alike."""
        self._scores, self._labels, self._weights = scores, labels, weights
        self.columns: Mapping[str, Column] = _columns(1, scores, labels, weights)

    def value(self, arrays: Arrays) -> float:
        scores = arrays[self._scores]
        if np.isnan(scores).any():
            return np.nan
        order = np.argsort(scores, kind="stable")
        weight = _weight(arrays, self._weights, len(scores))[order]
        positive = np.where(arrays[self._labels][order] > 0.5, weight, 0.0)
        negative = weight - positive
        ranked = scores[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, np.intp)
        positive, negative = np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)
        pairs = positive.sum() * negative.sum()
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / pairs) if pairs > 0 else np.nan


class GroupedAUC:
    """Mean of the AUC within each group, such as the impressions of one user (Zhu et al. 2017). A group counts by its
    number of samples or, with weights, by the sum of their weights. Groups without a positive or without a negative
    sample are left out.

    The value is NaN if no group remains, or if a score is NaN.
    """

    best: Best = "max"

    def __init__(self, groups: str, scores: str = "scores", labels: str = "labels", weights: str | None = None) -> None:
        """Takes the names of the arrays: `groups` [samples] int64, the others as in `AUC`."""
        self._groups, self._scores, self._labels, self._weights = groups, scores, labels, weights
        self.columns: Mapping[str, Column] = {
            **_columns(1, scores, labels, weights),
            groups: Column("int64"),
        }

    def value(self, arrays: Arrays) -> float:
        scores, groups = arrays[self._scores], arrays[self._groups]
        if np.isnan(scores).any() or not len(scores):
            return np.nan
        order = np.lexsort((scores, groups))
        groups, scores = groups[order], scores[order]
        weight = _weight(arrays, self._weights, len(scores))[order]
        positive = np.where(arrays[self._labels][order] > 0.5, weight, 0.0)
        new_group = np.r_[True, groups[1:] != groups[:-1]]
        ties = np.flatnonzero(new_group | np.r_[True, scores[1:] != scores[:-1]])  # each score of a group once
        begins = np.flatnonzero(new_group[ties])
        positive, negative = np.add.reduceat(positive, ties), np.add.reduceat(weight - positive, ties)
        sizes = np.diff(np.r_[begins, len(ties)])
        # Scaled by powers of two to about 1 a group, so that no group's sum is lost in the running total.
        exponents = np.frexp(np.add.reduceat(negative, begins))[1]
        scaled = np.ldexp(negative, -np.repeat(exponents, sizes))
        below = np.cumsum(scaled) - scaled
        below -= np.repeat(below[begins], sizes)  # counted from the beginning of the group
        won = np.ldexp(np.add.reduceat(positive * (below + scaled / 2), begins), exponents)
        positive, negative = np.add.reduceat(positive, begins), np.add.reduceat(negative, begins)
        both = positive * negative > 0
        of_group = won[both] / (positive[both] * negative[both])
        return _mean(of_group, positive[both] + negative[both])


class LogLoss:
    """Mean of -log p(label) in nats. With `classes` 2 it is binary, with one score a sample: the logit of class 1.
    Otherwise a sample has `classes` scores, the logits. With weights it is the weighted mean."""

    best: Best = "min"

    def __init__(
        self, scores: str = "scores", labels: str = "labels", weights: str | None = None, *, classes: int = 2
    ) -> None:
        self._scores, self._labels, self._weights = scores, labels, weights
        self.columns: Mapping[str, Column] = _columns(1 if classes == 2 else classes, scores, labels, weights)

    def value(self, arrays: Arrays) -> float:
        scores = arrays[self._scores].astype(np.float64)
        labels = arrays[self._labels]
        if scores.ndim == 1:
            losses = np.logaddexp(0.0, np.where(labels > 0.5, -scores, scores))
        else:
            highest = scores.max(axis=1, keepdims=True)
            chosen = np.take_along_axis(scores, labels.astype(np.int64)[:, None], axis=1)
            losses = (np.log(np.exp(scores - highest).sum(axis=1, keepdims=True)) + highest - chosen)[:, 0]
        return _mean(losses, _weight(arrays, self._weights, len(losses)))


class Accuracy:
    """Share of the samples whose most probable class is the label. With one score a sample the class is 1 if the score
    is above 0. With `classes` scores it is the class of the highest, the first of equal ones. With weights it is the
    share of the weights' sum."""

    best: Best = "max"

    def __init__(
        self, scores: str = "scores", labels: str = "labels", weights: str | None = None, *, classes: int = 2
    ) -> None:
        self._scores, self._labels, self._weights = scores, labels, weights
        self.columns: Mapping[str, Column] = _columns(1 if classes == 2 else classes, scores, labels, weights)

    def value(self, arrays: Arrays) -> float:
        scores, labels = arrays[self._scores], arrays[self._labels]
        right = (scores > 0) == (labels > 0.5) if scores.ndim == 1 else scores.argmax(axis=1) == labels
        return _mean(right.astype(np.float64), _weight(arrays, self._weights, len(scores)))


def _columns(width: int, scores: str, labels: str, weights: str | None) -> dict[str, Column]:
    columns = {scores: Column("float32", width), labels: Column("float32")}
    return columns if weights is None else {**columns, weights: Column("float32")}


def _weight(arrays: Arrays, name: str | None, samples: int) -> _Float64:
    return np.ones(samples) if name is None else arrays[name].astype(np.float64)


def _mean(values: _Float64, weight: _Float64) -> float:
    total = weight.sum()
    return float((values * weight).sum() / total) if total > 0 else np.nan

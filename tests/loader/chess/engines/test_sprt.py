"""The sequential test: its number against a likelihood that scipy maximizes, what must hold of it, and its errors."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from loader.chess.engines.sprt import LOWER, UPPER, Sprt

POINTS = np.linspace(0, 1, 5)
COUNTS = st.lists(st.integers(0, 2000), min_size=5, max_size=5).filter(any)
ELO = st.floats(-60, 60)


def most_likely(counts: np.ndarray, elo: float) -> float:
    """The log-likelihood of the likeliest distribution that has this difference, found by a general optimizer."""
    score = 1 / (1 + 10 ** (-elo / 400))
    shares = counts / counts.sum()
    found = minimize(
        lambda p: -shares @ np.log(p),
        np.full(5, 0.2),
        jac=lambda p: -shares / p,
        method="trust-constr",
        hess=lambda p: np.diag(shares / p**2),
        bounds=Bounds(1e-9, 1, keep_feasible=True),
        constraints=LinearConstraint(np.stack([np.ones(5), POINTS]), [1, score], [1, score]),
        options={"gtol": 1e-10, "xtol": 1e-14, "maxiter": 3000},
    )
    return float(-found.fun * counts.sum())


@pytest.mark.parametrize(
    ("pairs", "elo0", "elo1"),
    [
        ((10, 60, 100, 70, 15), 0, 5),
        ((3, 12, 20, 9, 1), -5, 0),
        ((20, 200, 400, 300, 60), 0, 50),
        ((5, 5, 5, 5, 5), -30, 40),
    ],
)
def test_the_ratio_is_that_of_two_likelihoods(pairs: tuple[int, ...], elo0: float, elo1: float) -> None:
    counts = np.array(pairs, dtype=float)
    expected = most_likely(counts, elo1) - most_likely(counts, elo0)
    assert Sprt(elo0, elo1).llr(pairs) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(
    ("pairs", "elo0", "elo1", "llr"),
    [
        ((223, 9863, 21279, 10037, 246), 0.5, 2.5, -3.07),
        ((871, 26175, 55983, 26678, 821), 0, 2, -4.98),
    ],
)
def test_matches_of_fishtest_have_the_numbers_that_fastchess_has_for_them(
    pairs: tuple[int, ...], elo0: float, elo1: float, llr: float
) -> None:
    assert Sprt(elo0, elo1).llr(pairs) == pytest.approx(llr, abs=0.01)


@given(COUNTS, ELO, ELO)
def test_the_ratio_turns_round_with_hypotheses_and_with_sides(pairs: list[int], one: float, other: float) -> None:
    llr = Sprt(one, other).llr(pairs)
    assert math.isfinite(llr)
    assert Sprt(other, one).llr(pairs) == pytest.approx(-llr, abs=1e-9)
    assert Sprt(-one, -other).llr(pairs[::-1]) == pytest.approx(llr, rel=1e-9, abs=1e-9)


@given(COUNTS, ELO, ELO, ELO)
def test_evidence_adds_up(pairs: list[int], one: float, between: float, other: float) -> None:
    """From one hypothesis to another by way of a third; and of twice as many pairs twice as much."""
    by_way = Sprt(one, between).llr(pairs) + Sprt(between, other).llr(pairs)
    assert by_way == pytest.approx(Sprt(one, other).llr(pairs), rel=1e-9, abs=1e-9)
    if all(pairs):
        twice = Sprt(one, other).llr([2 * count for count in pairs])
        assert twice == pytest.approx(2 * Sprt(one, other).llr(pairs), rel=1e-9, abs=1e-9)


@given(st.lists(st.integers(1, 2000), min_size=5, max_size=5))
def test_the_score_that_was_seen_is_the_likeliest_of_all(pairs: list[int]) -> None:
    score = np.array(pairs) @ POINTS / sum(pairs)
    seen = 400 * math.log10(score / (1 - score))
    for off in (-20.0, 20.0):
        assert Sprt(seen, seen + off).llr(pairs) < 0


@pytest.mark.parametrize("points", range(5))
@pytest.mark.parametrize("number", [1, 10, 10**7])
def test_pairs_that_all_end_alike_have_a_finite_ratio(points: int, number: int) -> None:
    pairs = [0] * 5
    pairs[points] = number
    llr = Sprt(-1000, 1000).llr(pairs)
    assert math.isfinite(llr)
    assert abs(llr) < 1e-3 if points == 2 else (llr > 0) == (points > 2)


def test_nothing_is_decided_before_the_first_pair() -> None:
    assert Sprt(0, 5).llr((0,) * 5) == 0
    assert Sprt(0, 5).accepted_hypothesis((0,) * 5) is None


def test_the_bounds_are_those_of_five_percent() -> None:
    assert -LOWER == UPPER == pytest.approx(2.944, abs=1e-3)
    assert Sprt(0, 5).accepted_hypothesis((0, 0, 0, 0, 500)) == "H1"
    assert Sprt(0, 5).accepted_hypothesis((500, 0, 0, 0, 0)) == "H0"


@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "H1"), (80.0, "H0")])
def test_the_wrong_hypothesis_is_accepted_in_one_match_of_twenty(elo: float, wrong: str) -> None:
    """Of 100 matches with fixed seeds, between engines of which a hypothesis is true."""
    test, rng = Sprt(0, 80), random.Random(7)
    score = 1 / (1 + 10 ** (-elo / 400))
    draws = 0.4
    shares = (score - draws / 2, draws, 1 - score - draws / 2)
    mistakes = 0
    for _ in range(100):
        pairs = [0] * 5
        while (accepted_hypothesis := test.accepted_hypothesis(pairs)) is None:
            pairs[sum(rng.choices((2, 1, 0), shares, k=2))] += 1
        mistakes += accepted_hypothesis == wrong
    assert 0 < mistakes <= 10

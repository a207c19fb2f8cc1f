"""Orders of pairs that make blocks of inputs 0 more often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pool.errors import ConfigError
from pool.tasks.chess.pair_order import BLOCK, find_order
from pool.tasks.chess.positions import Inputs, Position, read_fen, read_positions
from pool.tasks.chess.proof import probe_fens
from tests.support.paths import VALIDATION

NOWHERE = np.zeros(0, np.int64)
INPUTS = Inputs("HalfKAv2_hm")


def unpack_positions(count: int) -> list[Position]:
    """Each is known by its number of pieces."""
    return [Position(NOWHERE, NOWHERE, number) for number in range(count)]


def activations_of(active: npt.NDArray[Any]) -> Any:
    """[n, 2 * pairs]."""

    def activations(positions: Sequence[Position]) -> npt.NDArray[Any]:
        return active[[position.piece_count for position in positions]]

    return activations


def zero_blocks(active: npt.NDArray[Any], order: Sequence[int]) -> float:
    pairs = len(order)
    chosen = active.reshape(-1, pairs)[:, list(order)]
    return float((chosen.reshape(len(chosen), -1, BLOCK) == 0).all(axis=2).mean())


def test_pairs_that_are_zero_together_come_together() -> None:
    """64 pairs in 16 hidden groups of 4, each active half of the time, now and then a pair by itself."""
    rng = np.random.default_rng(1)
    groups = rng.random((2000, 16)) < 0.5
    shuffled = rng.permutation(64)
    active = (np.repeat(groups, 4, axis=1) & (rng.random((2000, 64)) < 0.9))[:, shuffled].reshape(1000, 128)
    found = find_order(activations_of(active), unpack_positions(1000))
    blocks = shuffled[found.order].reshape(16, 4) // 4
    assert (blocks == blocks[:, :1]).all()
    assert sorted(found.order) == list(range(64))
    assert found.before < 0.15
    assert found.after > 0.45
    assert found.positions == 250


@pytest.mark.parametrize("seed", range(5))
def test_of_eight_pairs_the_order_is_as_good_as_the_best_there_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    active = (rng.random((40, 16)) < np.tile(rng.choice([0.1, 0.5, 0.9], 8), 2)).astype(int)
    found = find_order(activations_of(active), unpack_positions(40))
    chosen = np.delete(active, np.s_[3::4], axis=0)
    best = max(zero_blocks(chosen, [*block, *(set(range(8)) - set(block))]) for block in combinations(range(8), BLOCK))
    assert zero_blocks(chosen, found.order.tolist()) in (best, zero_blocks(chosen, range(8)))
    assert found.after >= found.before


def test_an_order_that_does_not_hold_elsewhere_is_not_taken() -> None:
    """Of eight pairs those that are 0 together in the positions it is found with never are in those it is measured
    with, where the order that there is would do."""
    together = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    active = np.tile(together, (40, 2))
    active[3::4] = np.tile([0, 0, 0, 0, 1, 1, 1, 1], 2)
    found = find_order(activations_of(active), unpack_positions(40))
    assert found.order.tolist() == list(range(8))
    assert (found.before, found.after) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("pairs", "count", "said"), [(8, 1, "1 position: two are needed"), (6, 9, "6 pairs: blocks of 4")]
)
def test_what_can_not_be_ordered_is_refused(pairs: int, count: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        find_order(activations_of(np.zeros((count, 2 * pairs))), unpack_positions(count))


def test_positions_are_those_of_data_and_of_lists(tmp_path: Path) -> None:
    fens = list(probe_fens(5))
    (tmp_path / "x.epd").write_text("\n".join(fens))
    found = read_positions([str(tmp_path / "*.epd"), str(VALIDATION)], INPUTS, "--permute", max_positions=700)
    assert len(found) == 700
    assert [one.own.tolist() for one in found[:5]] == [read_fen(fen, INPUTS).own.tolist() for fen in fens]
    assert len({tuple(one.own.tolist()) for one in found}) > 600
    assert all(len(one.own) == len(one.opponent) == one.piece_count for one in found)


@pytest.mark.parametrize(
    ("make", "said"),
    [(None, "--permute: no file matches"), ("", "--permute: no position in"), ("no position", "line 1: ")],
)
def test_files_without_positions_are_named(make: str | None, said: str, tmp_path: Path) -> None:
    if make is not None:
        (tmp_path / "x.epd").write_text(make)
    with pytest.raises((ConfigError, ValueError), match=said):
        read_positions([str(tmp_path / "x.epd")], INPUTS, "--permute")

"""Sums along a plan of the batch, against sums in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pool import _native
from pool.nn.batch import SparseInput
from pool.nn.sparse_linear import SparseLinear
from tests.pool.kernels import reference
from tests.pool.kernels.sparse_inputs import input_of, random_input

WIDTHS = [1, 8, 16, 17, 33, 100, 128, 160, 272]


def like_chess(bags: int, *, groups: int = 3, rows: int = 60, most: int = 14, shared: int = 0) -> SparseInput:
    """Bags of a group take its rows, some of them nearly always, and rows that all groups share."""
    rng = np.random.default_rng(0)
    often = rng.random((groups, rows)) ** 2
    lists = []
    for _ in range(bags):
        group = rng.integers(groups)
        own = np.flatnonzero(rng.random(rows) < often[group])[:most]
        common = rng.integers(0, shared, 3) if shared else np.empty(0, np.int64)
        lists.append([*(group * rows + own).tolist(), *np.unique(groups * rows + common).tolist()])
    return input_of(lists, groups * rows + shared)


def plan_of(sparse: SparseInput, num_features: int) -> _native.SparsePlan:
    plan = sparse.plan(num_features)
    assert plan is not None
    return plan


def forward(sparse: SparseInput, weight: Tensor, bias: Tensor | None, threads: int = 1) -> Tensor:
    out = torch.full((sparse.num_bags, weight.shape[1]), torch.nan)
    plan_of(sparse, len(weight)).forward(weight, bias, out, threads)
    return out


def backward(sparse: SparseInput, grad_out: Tensor, num_features: int, threads: int = 1) -> Tensor:
    """Rows that were not written hold 7; the sums of the columns come last."""
    grad = torch.full((num_features, grad_out.shape[1]), 7.0)
    total = torch.full((grad_out.shape[1],), torch.nan)
    plan_of(sparse, num_features).backward(grad_out, grad, total, threads=threads)
    torch.testing.assert_close(total.double(), grad_out.double().sum(0), rtol=1e-5, atol=1e-4)
    return torch.cat([grad, total[None]])


def check(sparse: SparseInput, num_features: int, width: int, threads: int = 1) -> None:
    generator = torch.Generator().manual_seed(width)
    weight = torch.randn(num_features, width, generator=generator)
    bias = torch.randn(width, generator=generator)
    grad_out = torch.randn(sparse.num_bags, width, generator=generator)
    for start in (bias, None):
        wanted = reference.forward(weight.double(), None if start is None else start.double(), sparse)
        torch.testing.assert_close(forward(sparse, weight, start, threads).double(), wanted, rtol=1e-6, atol=5e-6)
    grad, magnitude = torch.full((2, num_features, width), 7.0, dtype=torch.float64)
    reference.backward_rows(sparse, grad_out.double(), grad)
    reference.backward_rows(sparse, grad_out.double().abs(), magnitude)
    found = backward(sparse, grad_out, num_features, threads)[:-1].double()
    assert ((found - grad).abs() <= 1e-6 * magnitude).all()  # rounding grows with what was added up, not with the sum


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("bags", [40, 700, 3000])
def test_sums_are_those_of_the_reference(width: int, bags: int) -> None:
    check(like_chess(bags), 180, width)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", [8, 144])
def test_rows_that_several_tiles_have_are_added_up(width: int) -> None:
    sparse = like_chess(4000, groups=12, rows=200, most=30, shared=90)
    check(sparse, 12 * 200 + 90, width)


@pytest.mark.usefixtures("simd_level")
def test_large_outputs_past_the_caches_are_complete() -> None:
    check(like_chess(9000, groups=40, rows=150), 6000, 128, threads=2)


@pytest.mark.usefixtures("simd_level")
def test_numbers_of_features_may_need_32_bits() -> None:
    base = like_chess(900)
    bags = [
        (base.features[first:last].long() * 1000).tolist()
        for first, last in zip(base.offsets.tolist()[:-1], base.offsets.tolist()[1:], strict=True)
    ]
    sparse = input_of(bags, 180_000)
    assert sparse.features.dtype == torch.uint32
    check(sparse, 180_000, 16)


@pytest.mark.usefixtures("simd_level")
def test_a_feature_that_a_bag_has_twice_counts_twice() -> None:
    bags = [[0, 1, 2, 3, 4, 5, 6, 0, 5, 0]] * 400 + [[1, 7, 7]] * 5 + [[]] * 3
    check(input_of(bags, 8), 8, 24)


@pytest.mark.usefixtures("simd_level")
def test_the_longest_sums_that_a_plan_can_say() -> None:
    sparse = input_of([[3] * 255] * 600 + [[]] * 300, 8)
    numbers = torch.arange(900 * 16).reshape(900, 16) % 23.0  # whole, so that sums are exact
    wanted = reference.forward(numbers[:8], None, sparse)
    assert torch.equal(forward(sparse, numbers[:8], None), wanted)
    assert torch.equal(backward(sparse, numbers, 8)[3], 255 * numbers[:600].sum(0))


@given(
    bags=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=30),
    copies=st.integers(4, 60),
    width=st.integers(1, 40),
)
def test_any_bags_agree_with_the_reference(bags: list[list[int]], copies: int, width: int) -> None:
    sparse = input_of(bags * copies, 10)
    if sparse.plan(10) is not None:
        check(sparse, 10, width)


@pytest.mark.usefixtures("best_level")
@pytest.mark.parametrize("width", [8, 100, 512])
def test_bits_do_not_depend_on_threads_or_level(width: int) -> None:
    sparse = like_chess(2500, groups=9, rows=120, shared=40)
    num_features = 9 * 120 + 40
    weight, bias, grad_out = torch.randn(num_features, width), torch.randn(width), torch.randn(2500, width)
    results = []
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        for threads in (1, 2, 3, 40):
            results.append((forward(sparse, weight, bias, threads), backward(sparse, grad_out, num_features, threads)))
    for result in results[1:]:
        for tensor, first in zip(result, results[0], strict=True):
            assert torch.equal(tensor, first)


def test_bags_that_share_little_are_not_worth_a_plan() -> None:
    sparse = random_input(500, 40_000)
    assert sparse.plan(40_000) is None
    plan = _native.SparsePlan(sparse.offsets, sparse.features, 40_000)
    assert not plan.is_worthwhile
    with pytest.raises(ValueError, match="not worth its use"):
        plan.forward(torch.zeros(40_000, 8), None, torch.zeros(500, 8))
    with pytest.raises(ValueError, match="not worth its use"):
        plan.backward(torch.zeros(500, 8), torch.zeros(40_000, 8), torch.zeros(8))
    assert input_of([list(range(256))] * 50, 300).plan(300) is None  # longer sums than a plan can say
    assert input_of([[], []], 5).plan(5) is None


def test_a_batch_makes_its_plan_once_for_all_layers() -> None:
    sparse = like_chess(100)
    first, second = SparseLinear(180, 16), SparseLinear(180, 8)
    first(sparse)
    plan = sparse.plan(180)
    second(sparse)
    assert sparse.plan(180) is plan


@pytest.mark.parametrize("planned", [False, True])
def test_the_layer_gives_the_same_gradients_with_and_without_a_plan(planned: bool) -> None:
    sparse = like_chess(2000) if planned else random_input(100, 180)
    assert (sparse.plan(180) is not None) == planned
    layer = SparseLinear(180, 48)
    out = layer(sparse)
    torch.autograd.backward([out], [torch.ones_like(out)])
    assert layer.weight.grad is not None
    counts = torch.bincount(sparse.features.long(), minlength=180).float()
    assert torch.equal(layer.weight.grad, counts[:, None].expand(180, 48))


def _u32(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64).to(torch.uint32)


@pytest.mark.parametrize(
    ("offsets", "features", "message"),
    [
        (_u32(0, 2), _u32(1, 4), "features holds 4, but there are 4 rows in weight"),
        (_u32(0, 3, 2), _u32(1, 2, 3), r"offsets\[2\] = 2 is below offsets\[1\] = 3"),
        (_u32(0, 4), _u32(1, 2, 3), r"offsets\[1\] = 4 is beyond the 3 numbers"),
        (_u32(1, 3), _u32(1, 2, 3), "offsets go from 1 to 3"),
        (_u32(), _u32(), "offsets is empty"),
        (torch.tensor([0, 1]), _u32(1), "offsets must be uint32"),
        (_u32(0, 1), torch.tensor([1]), "features must be uint16 or uint32"),
    ],
)
def test_bags_that_are_out_of_bounds_are_refused(offsets: Tensor, features: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _native.SparsePlan(offsets, features, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(5, 8)}, "weight has 5 rows, but the plan was made for 4"),
        ({"weight": torch.zeros(4, 8, dtype=torch.float64)}, "weight must be float32"),
        ({"bias": torch.zeros(7)}, "bias has 7 numbers, must have 8"),
        ({"out": torch.zeros(7, 8)}, r"out is \[7, 8\], but plan and weight make it \[8, 8\]"),
        ({"out": torch.zeros(8, 9)}, r"out is \[8, 9\]"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_forward_refuses_what_does_not_fit(change: dict[str, Any], message: str) -> None:
    plan = plan_of(input_of([[0, 1]] * 8, 4), 4)
    arguments = {"weight": torch.ones(4, 8), "bias": None, "out": torch.zeros(8, 8), **change}
    with pytest.raises(ValueError, match=message):
        plan.forward(**arguments)
    assert not arguments["out"].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grad_weight": torch.zeros(5, 8)}, "grad_weight has 5 rows, but the plan was made for 4"),
        ({"grad_out": torch.ones(7, 8)}, "grad_out has 7 rows, but the plan 8 bags"),
        ({"grad_out": torch.ones(8, 9)}, "grad_weight has 8 columns and grad_out 9"),
        ({"column_sums": torch.zeros(9)}, "column_sums has 9 numbers, must have 8"),
        ({"threads": 1025}, "threads must be 1 to 1024, not 1025"),
    ],
)
def test_backward_refuses_what_does_not_fit(change: dict[str, Any], message: str) -> None:
    plan = plan_of(input_of([[0, 1]] * 8, 4), 4)
    good = {"grad_out": torch.ones(8, 8), "grad_weight": torch.zeros(4, 8), "column_sums": torch.zeros(8)}
    arguments: dict[str, Any] = {**good, **change}
    with pytest.raises(ValueError, match=message):
        plan.backward(**arguments)
    assert not arguments["grad_weight"].any()

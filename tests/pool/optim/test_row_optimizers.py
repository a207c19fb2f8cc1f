"""Optimizers that step touched rows only: their formulas, in float64, and the same bits however a table is stepped."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pool import _native
from pool.kernels import rule
from pool.kernels.reduction import Addend, Touched
from pool.optim import FTRL, Adam, RowwiseAdagrad, SparseAdam
from pool.optim.native import NativeOptimizer

Numbers = npt.NDArray[np.float64]
Make = Callable[[list[nn.Parameter]], NativeOptimizer]

OPTIMIZERS: dict[str, Make] = {
    "SparseAdam": lambda parameters: SparseAdam(parameters, lr=0.02, weight_decay=0.01),
    "RowwiseAdagrad": lambda parameters: RowwiseAdagrad(parameters, lr=0.05, weight_decay=0.01),
    "FTRL": lambda parameters: FTRL(parameters, lr=0.3, l1=0.02, l2=0.1),
}


def touched_rows(rng: np.random.Generator, rows: int, share: float) -> Touched:
    return np.flatnonzero(rng.random(rows) < share).astype(np.uint32)


def stepped(make: Make, start: Tensor, steps: list[list[Addend]], borders: list[int]) -> tuple[Tensor, list[Tensor]]:
    """The weights, and the state's tensors, of a table that is stepped in parts, from one version to the other."""
    versions = [start.clone(), start.clone()]
    parts = [nn.Parameter(versions[0][first:last]) for first, last in itertools.pairwise(borders)]
    optimizers = [make([part]) for part in parts]
    for part, optimizer in zip(parts, optimizers, strict=True):
        optimizer.tables = frozenset([part])
    for t, addends in enumerate(steps):
        old, new = versions[t % 2], versions[(t + 1) % 2]
        new.copy_(old)
        for part, optimizer, first in zip(parts, optimizers, borders, strict=False):
            rows = slice(first, first + len(part))
            part.data = new[rows]
            own = [Addend(each.leaf, each.gradient[rows], each.touched) for each in addends]
            optimizer.reduce_and_step(part, old[rows], own, first_row=first, scale=0.5)
    states = [
        torch.cat([optimizer.state[part][key] for part, optimizer in zip(parts, optimizers, strict=True)])
        for key in sorted(optimizers[0].state[parts[0]])
        if key != "step"
    ]
    return versions[len(steps) % 2], states


def draw(seed: int, rows: int, columns: int, count: int) -> tuple[Tensor, list[list[Addend]]]:
    """First weights, and the gradients of some steps, of `count` batches each; rows that were not touched are NaN."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(rows, columns, generator=generator)
    steps = []
    for _ in range(4):
        addends = []
        for place in range(count):
            touched = touched_rows(rng, rows, rng.choice([0.05, 0.5, 1.0]))
            gradient = torch.full((rows, columns), torch.nan)
            gradient[touched.astype(np.int64)] = torch.randn(len(touched), columns, generator=generator)
            addends.append(Addend(place, gradient, touched))
        steps.append(addends)
    return start, steps


@pytest.mark.parametrize("name", OPTIMIZERS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    columns=st.sampled_from([1, 3, 16, 17, 40]),
    count=st.integers(1, 5),
    cuts=st.sets(st.integers(1, 299), max_size=4),
)
def test_the_bits_are_the_same_for_any_level_any_threads_and_any_borders(
    name: str, seed: int, columns: int, count: int, cuts: set[int]
) -> None:
    start, steps = draw(seed, 300, columns, count)
    make = OPTIMIZERS[name]
    expected, expected_states = stepped(make, start, steps, [0, 300])
    level = _native.simd_level()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "_choose_threads", lambda *_: 3)
        for other in _native.simd_levels():
            _native.set_simd_level(other)
            try:
                found, states = stepped(make, start, steps, [0, *sorted(cuts), 300])
            finally:
                _native.set_simd_level(level)
            assert found.numpy().tobytes() == expected.numpy().tobytes()
            for mine, its in zip(states, expected_states, strict=True):
                assert mine.numpy().tobytes() == its.numpy().tobytes()
    untouched = torch.ones(300, dtype=torch.bool)
    for each in itertools.chain(*steps):
        assert each.touched is not None
        untouched[each.touched.astype(np.int64)] = False
    assert torch.equal(expected[untouched], start[untouched])
    assert not expected.isnan().any()


def sparse_adam(w: Numbers, g: Numbers, state: dict[str, Any]) -> Numbers:
    """As torch.optim.SparseAdam computes it, with weight decay as in Adam."""
    g = g + 0.01 * w
    state["m"] = 0.9 * state["m"] + 0.1 * g
    state["v"] = 0.999 * state["v"] + 0.001 * g * g
    rate = 0.02 * np.sqrt(1 - 0.999 ** state["t"]) / (1 - 0.9 ** state["t"])
    return w - rate * state["m"] / (np.sqrt(state["v"]) + 1e-8)  # type: ignore[no-any-return]


def rowwise_adagrad(w: Numbers, g: Numbers, state: dict[str, Any]) -> Numbers:
    g = g + 0.01 * w
    state["m"] = state["m"] + (g * g).mean(1, keepdims=True)
    return w - 0.05 * g / (np.sqrt(state["m"]) + 1e-10)  # type: ignore[no-any-return]


def ftrl(w: Numbers, g: Numbers, state: dict[str, Any]) -> Numbers:
    """Algorithm 1 of the paper, line by line; z begins as what the first weights follow from."""
    n = state["v"]
    if state["t"] == 1:
        state["m"] = -(w * (1 / 0.3 + 0.1) + np.sign(w) * 0.02)
        state["first"] = state["m"]
    z = state["first"] if state["t"] == 1 else state["m"]
    sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / 0.3
    z = z + g - sigma * w
    n = n + g * g
    state["m"], state["v"] = z, n
    return np.where(np.abs(z) <= 0.02, 0.0, -(z - np.sign(z) * 0.02) / ((1 + np.sqrt(n)) / 0.3 + 0.1))


@pytest.mark.parametrize(
    ("name", "rule"), [("SparseAdam", sparse_adam), ("RowwiseAdagrad", rowwise_adagrad), ("FTRL", ftrl)]
)
@pytest.mark.usefixtures("simd_level")
def test_each_follows_its_formula(name: str, rule: Callable[[Numbers, Numbers, dict[str, Any]], Numbers]) -> None:
    """All rows are touched in every step, so that the reference may be dense."""
    rng = np.random.default_rng(1)
    start = torch.from_numpy(rng.normal(size=(50, 21)).astype(np.float32))
    gradients = [rng.normal(size=start.shape).astype(np.float32) for _ in range(12)]
    every = np.arange(50, dtype=np.uint32)
    steps = [[Addend(0, torch.from_numpy(gradient), every)] for gradient in gradients]
    found, _ = stepped(OPTIMIZERS[name], start, steps, [0, 50])
    weights: Numbers = start.numpy().astype(np.float64)
    state: dict[str, Any] = {"m": np.zeros_like(weights), "v": np.zeros_like(weights), "t": 0}
    if name == "RowwiseAdagrad":
        state["m"] = np.zeros((50, 1))
    for gradient in gradients:
        state["t"] += 1
        weights = rule(weights, 0.5 * gradient.astype(np.float64), state)
    np.testing.assert_allclose(found.numpy(), weights, rtol=3e-5, atol=3e-6)
    assert np.abs(weights - start.numpy()).max() > 0.05


def test_ftrl_makes_weights_zero_and_keeps_the_first_ones_where_nothing_happens() -> None:
    weights = nn.Parameter(torch.tensor([0.5, -0.5, 0.0]))
    optimizer = FTRL([weights], lr=0.1, l1=0.3)
    weights.grad = torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(weights.detach(), torch.tensor([0.5, -0.5, 0.0]))
    for _ in range(40):
        weights.grad = weights.detach().sign() * 0.2
        optimizer.step()
    assert (weights == 0).any()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_no_table_is_stepped_number_by_number(name: str) -> None:
    """By torch's own where there is one: then the state is named and shaped as its."""
    theirs: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
        "SparseAdam": lambda parameters: torch.optim.Adam(parameters, lr=0.02, weight_decay=0.01),
        "RowwiseAdagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.05, weight_decay=0.01),
    }
    first, second = nn.Parameter(torch.linspace(-1, 1, 77)), nn.Parameter(torch.linspace(-1, 1, 77))
    ours = OPTIMIZERS[name]([first])
    other = theirs.get(name, OPTIMIZERS[name])([second])
    for seed in range(5):
        first.grad = second.grad = torch.randn(77, generator=torch.Generator().manual_seed(seed))
        ours.step()
        other.step()
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)


def test_sparse_adam_is_torchs_at_its_default_epsilon() -> None:
    """Gradients as small as epsilon: where it is added decides."""
    start = torch.randn(40, 16, generator=torch.Generator().manual_seed(3))
    own, reference = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours, theirs = SparseAdam([own], lr=0.01), torch.optim.SparseAdam([reference], lr=0.01)
    every = torch.arange(40)
    for seed in range(5):
        gradient = 1e-8 * torch.randn(40, 16, generator=torch.Generator().manual_seed(seed))
        ours.reduce_and_step(own, own.data, [Addend(0, gradient, every.numpy().astype(np.uint32))])
        reference.grad = torch.sparse_coo_tensor(every[None], gradient, start.shape, check_invariants=True).coalesce()
        theirs.step()
    torch.testing.assert_close(own.detach() - start, reference.detach() - start, rtol=1e-3, atol=1e-6)
    plain = nn.Parameter(start.clone())
    dense = Adam([plain], lr=0.01)
    plain.grad = gradient
    dense.step()
    assert (plain - start).abs().max() > 3e-3


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda p: RowwiseAdagrad([p], eps=0.0), "eps must be positive, not 0"),
        (lambda p: RowwiseAdagrad([p], lr=float("nan")), "lr must not be negative: nan"),
        (lambda p: FTRL([p], lr=0.0), "lr must be positive, not 0"),
        (lambda p: FTRL([p], l1=-1.0), "l1 must not be negative: -1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[nn.Parameter], Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make(nn.Parameter(torch.zeros(3)))

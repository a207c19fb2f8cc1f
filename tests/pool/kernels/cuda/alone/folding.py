"""Fold and Adam, against the CPU's kernels: the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels import backend
from pool.kernels.adam import AdamStep
from pool.kernels.cuda import fold as kernels
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Argument, Extent
from pool.kernels.fold import Addend
from pool.optim.adam import Adam, SparseAdam
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

PLACES = [
    [0],
    [5],
    [0, 1],
    [0, 1, 2],
    [1, 2, 3],
    [0, 1, 2, 3],
    [0, 2, 3],
    [0, 3, 5, 6, 7],
    list(range(9)),
    [3, 17, 33, 34],
]
SETTINGS = {"learning_rate": 0.003, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-7, "weight_decay": 0.1}


@pytest.fixture(autouse=True)
def native_code(cpu: CpuLauncher, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """The optimizers' steps, which are compared with, are native code's all the same."""
    monkeypatch.setattr(backend, "NATIVE", "cpu")


def numbers(*shape: int, seed: int) -> Tensor:
    """Of magnitudes far apart, so that another order of adding shows in the bits."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy((rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(np.float32))


def bits(*tensors: Tensor) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in tensors]


def touched_rows(
    count: int, columns: int, rows: int, first_row: int, kind: torch.dtype
) -> tuple[list[Tensor], list[Tensor]]:
    """Lists of touched rows, some outside the table's share, and their gradients; the last touched nothing in it."""
    gradients, lists = [], []
    for s in range(count):
        rng = np.random.default_rng(s)
        share = 0.0 if count > 1 and s == count - 1 else 0.6
        inside = first_row + np.flatnonzero(rng.random(rows) < share)
        outside = rng.choice(first_row, 3, replace=False) if first_row else np.zeros(0, np.int64)
        found = np.sort(np.concatenate([outside, inside, [first_row + rows + 2]]))
        lists.append(torch.from_numpy(found).to(kind))
        gradients.append(numbers(len(found), columns, seed=s))
    return gradients, lists


def whole(gradients: Sequence[Tensor], lists: Sequence[Tensor], rows: int, first_row: int) -> list[Addend]:
    """The same with all rows in their places, as the CPU's kernels also take them."""
    addends: list[Addend] = []
    for gradient, touched in zip(gradients, lists, strict=True):
        at = touched.long() - first_row
        inside = (at >= 0) & (at < rows)
        table = torch.full((rows, gradient.shape[1]), torch.nan)
        table[at[inside]] = gradient[inside]
        addends.append(Addend(len(addends), table, touched.numpy()))
    return addends


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_a_fold_has_the_bits_of_the_cpus(places: list[int], size: int, scale: float) -> None:
    gradients = [numbers(size, seed=s) for s in range(len(places))]
    wanted, found = torch.empty(size), torch.empty(size)
    _native.fold(wanted, gradients, places=places, scale=scale, threads=1)
    kernels.fold(found, gradients, places, scale)
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("touched_only", [False, True])
def test_a_fold_of_rows_has_the_bits_of_the_cpus(places: list[int], columns: int, touched_only: bool) -> None:
    first_row, rows = 20, 30
    gradients, lists = touched_rows(len(places), columns, rows, first_row, torch.uint16)
    wanted, found = torch.full((rows, columns), 7.0), torch.full((rows, columns), 7.0)
    sources: list[Any] = [(addend.gradient, addend.touched) for addend in whole(gradients, lists, rows, first_row)]
    _native.fold_rows(
        wanted, sources, places=places, scale=0.5, first_row=first_row, touched_only=touched_only, threads=1
    )
    kernels.fold_rows(found, gradients, lists, places, 0.5, first_row, touched_only)
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("which", [{0, 1, 2}, {1}], ids=["all", "one"])
@pytest.mark.parametrize("columns", [1, 8])
def test_gradients_of_bfloat16_give_the_bits_of_their_float32(which: set[int], columns: int) -> None:
    """Also beside others; of all four operations."""
    first_row, rows, places = 20, 30, [0, 2, 3]
    constants = AdamStep(**SETTINGS, decoupled=True, step=3).numbers

    def computed(gradients: list[Tensor], dense: list[Tensor]) -> list[bytes]:
        state = [numbers(rows, columns, seed=s).abs() for s in range(6)]
        kernels.fold(state[0], dense, places, 0.5)
        kernels.adam([state[1], state[2], state[3]], state[1], dense, places, [0.5, *constants])
        kernels.fold_rows(state[4], gradients, lists, places, 0.5, first_row, True)
        which = [first_row, 0]
        kernels.adam_rows([state[5], state[2], state[3]], state[5], gradients, lists, places, [0.5, *constants], which)
        return bits(*state)

    gradients, lists = touched_rows(3, columns, rows, first_row, torch.uint32)
    both = [gradients, [numbers(rows, columns, seed=s) for s in range(3)]]
    narrow = [[each.bfloat16() if i in which else each for i, each in enumerate(of)] for of in both]
    wide = [[each.float() for each in of] for of in narrow]
    assert computed(narrow[0], narrow[1]) == computed(wide[0], wide[1])


@pytest.mark.parametrize("places", [[0], [0, 1, 2, 3], [3, 17, 33, 34]], ids=str)
@pytest.mark.parametrize("size", [7, 64])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_steps_of_adam_have_the_bits_of_the_cpus(places: list[int], size: int, decoupled: bool, in_place: bool) -> None:
    parameter = nn.Parameter(numbers(size, seed=99))
    optimizer = Adam([parameter], 0.003, (0.9, 0.99), 1e-7, 0.1, decoupled_weight_decay=decoupled)
    weights, mean, square = parameter.detach().clone(), torch.zeros(size), torch.zeros(size)
    for step in range(1, 6):
        gradients = [numbers(size, seed=10 * step + s) for s in range(len(places))]
        addends = [Addend(place, gradient, None) for place, gradient in zip(places, gradients, strict=True)]
        optimizer.fold_and_step(parameter, parameter.data.clone(), addends, scale=0.25)
        constants = AdamStep(**SETTINGS, decoupled=decoupled, step=step).numbers
        old = weights if in_place else weights.clone()
        kernels.adam([weights, mean, square], old, gradients, places, [0.25, *constants])
        state = optimizer.state[parameter]
        assert bits(weights, mean, square) == bits(parameter.data, state["exp_avg"], state["exp_avg_sq"])


@pytest.mark.parametrize("kind", [torch.uint16, torch.uint32], ids=str)
@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("touched_only", [False, True])
def test_steps_of_a_table_have_the_bits_of_the_cpus(kind: torch.dtype, columns: int, touched_only: bool) -> None:
    first_row, rows, places = 20, 30, [0, 1, 3]
    parameter = nn.Parameter(numbers(rows, columns, seed=99))
    optimizer = (SparseAdam if touched_only else Adam)([parameter], 0.003, (0.9, 0.99), 1e-7)
    weights, mean, square = parameter.detach().clone(), torch.zeros(rows, columns), torch.zeros(rows, columns)
    settings = SETTINGS | {"weight_decay": 0.0, "decoupled": False}
    for step in range(1, 4):
        gradients, lists = touched_rows(3, columns, rows, first_row, kind)
        addends = [
            Addend(p, a.gradient, a.touched)
            for p, a in zip(places, whole(gradients, lists, rows, first_row), strict=True)
        ]
        optimizer.fold_and_step(parameter, parameter.data.clone(), addends, first_row=first_row, scale=0.25)
        epsilon = 1e-7 / (1 - 0.99**step) ** 0.5 if touched_only else 1e-7
        constants = AdamStep(**settings | {"epsilon": epsilon}, step=step).numbers
        stepped, which = [weights, mean, square], [first_row, int(touched_only)]
        kernels.adam_rows(stepped, weights.clone(), gradients, lists, places, [0.25, *constants], which)
        state = optimizer.state[parameter]
        assert bits(weights, mean, square) == bits(parameter.data, state["exp_avg"], state["exp_avg_sq"])


def test_blocks_and_orders_change_no_bit(cpu: CpuLauncher) -> None:
    gradients, lists = touched_rows(3, 8, 30, 0, torch.uint16)
    constants = AdamStep(**SETTINGS, decoupled=True, step=3).numbers

    def stepped() -> list[bytes]:
        tensors = [numbers(30, 8, seed=1), numbers(30, 8, seed=2), numbers(30, 8, seed=3).abs()]
        kernels.adam_rows(tensors, tensors[0], gradients, lists, [0, 1, 2], [0.5, *constants], [0, 0])
        dense = [tensor.clone() for tensor in tensors]
        kernels.adam(dense, dense[0], [numbers(30, 8, seed=4)], [0], [0.5, *constants])
        return bits(*tensors, *dense)

    wanted = stepped()
    for cpu.threads, cpu.backward in ((1, False), (2, True), (64, False), (1024, True)):
        assert stepped() == wanted


def test_places_that_are_too_far_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="places 3 to 64: a node of 128; fold nodes of 64 first"):
        kernels.leaves_of([3, 64])
    assert kernels.leaves_of([64, 66, 127]) == (64, [0, 2, 63])


def test_any_number_of_touched_rows_has_a_grid(cpu: CpuLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table of a recommender in a step of groups: along y, a grid has 65,535 blocks of 128 rows."""
    grids = {}

    def note(source: Source, kernel: str, extent: Extent, _: Sequence[Argument]) -> None:
        grids[kernel] = extent.blocks(source.kernels[kernel].threads)

    monkeypatch.setattr(cpu, "launch", note)
    count = 65_535 * 128 + 1
    gradients = [torch.empty(count, 1), torch.empty(5, 1)]
    lists = [torch.empty(len(gradient), dtype=torch.uint32) for gradient in gradients]
    kernels.fold_rows(torch.empty(count, 1), gradients, lists, [0, 1], 1.0, 0, False)
    assert grids["find_rows"] == ((2 * 65_535 + 1, 1), (1, 128))
    assert set(grids) == {"find_rows", "fold_rows"}

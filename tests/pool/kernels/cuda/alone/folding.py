"""Sums and steps, against the CPU's kernels: the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels import backend
from pool.kernels.cuda import reduction as kernels
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Argument, Extent
from pool.kernels.reduction import Addend
from pool.optim import Adam, AdamW, RangerLite, SparseAdam
from pool.optim.adam import adam_numbers
from pool.optim.native import NativeOptimizer
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
SETTINGS = {"lr": 0.003, "betas": (0.9, 0.99), "weight_decay": 0.1, "decoupled_weight_decay": True}
ADAM = [0.5, *adam_numbers(SETTINGS, 3, 1e-7)]  # scale, then the constants of a step
Kind = type[Adam] | type[RangerLite]
STEPPERS: list[Kind] = [Adam, AdamW, RangerLite]


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


def state_of(optimizer: NativeOptimizer, parameter: Tensor) -> list[Tensor]:
    return [torch.as_tensor(value) for value in optimizer.state[parameter].values()]


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
    _native.reduce(wanted, gradients, leaves=places, scale=scale, threads=1)
    kernels.reduce(found, gradients, places, scale)
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("touched_only", [False, True])
def test_a_fold_of_rows_has_the_bits_of_the_cpus(places: list[int], columns: int, touched_only: bool) -> None:
    first_row, rows = 20, 30
    gradients, lists = touched_rows(len(places), columns, rows, first_row, torch.uint16)
    wanted, found = torch.full((rows, columns), 7.0), torch.full((rows, columns), 7.0)
    sources: list[Any] = [(addend.gradient, addend.touched) for addend in whole(gradients, lists, rows, first_row)]
    _native.reduce_rows(
        wanted, sources, leaves=places, scale=0.5, first_row=first_row, touched_only=touched_only, threads=1
    )
    kernels.reduce_rows(found, gradients, lists, places, 0.5, first_row, touched_only)
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("which", [{0, 1, 2}, {1}], ids=["all", "one"])
@pytest.mark.parametrize("columns", [1, 8])
def test_gradients_of_bfloat16_give_the_bits_of_their_float32(which: set[int], columns: int) -> None:
    """Also beside others; of all four operations."""
    first_row, rows, places = 20, 30, [0, 2, 3]

    def computed(gradients: list[Tensor], dense: list[Tensor]) -> list[bytes]:
        state = [numbers(rows, columns, seed=s).abs() for s in range(6)]
        kernels.reduce(state[0], dense, places, 0.5)
        kernels.step("Adam", [state[1], state[1], state[2], state[3]], dense, places, ADAM)
        kernels.reduce_rows(state[4], gradients, lists, places, 0.5, first_row, True)
        tensors = [state[5], state[5], state[2], state[3]]
        kernels.step_rows("Adam", tensors, gradients, lists, places, ADAM, [first_row, 0])
        return bits(*state)

    gradients, lists = touched_rows(3, columns, rows, first_row, torch.uint32)
    both = [gradients, [numbers(rows, columns, seed=s) for s in range(3)]]
    narrow = [[each.bfloat16() if i in which else each for i, each in enumerate(of)] for of in both]
    wide = [[each.float() for each in of] for of in narrow]
    assert computed(narrow[0], narrow[1]) == computed(wide[0], wide[1])


@pytest.mark.parametrize("places", [[0], [0, 1, 2, 3], [3, 17, 33, 34]], ids=str)
@pytest.mark.parametrize("size", [7, 64])
@pytest.mark.parametrize("kind", STEPPERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("in_place", [False, True])
def test_steps_have_the_bits_of_the_cpus(
    places: list[int], size: int, kind: Kind, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stepped() -> list[bytes]:
        parameter = nn.Parameter(numbers(size, seed=99))
        optimizer = kind([parameter], 0.003, (0.9, 0.99), 1e-7, 0.1)
        for step in range(1, 7):
            gradients = [numbers(size, seed=10 * step + s) for s in range(len(places))]
            addends = [Addend(place, gradient, None) for place, gradient in zip(places, gradients, strict=True)]
            old = parameter.data if in_place else parameter.data.clone()
            optimizer.set_global_norm(float(step), size)
            optimizer.reduce_and_step(parameter, old, addends, scale=0.25)
        return bits(parameter.data, *state_of(optimizer, parameter))

    wanted = stepped()
    monkeypatch.setattr(backend, "NATIVE", "cuda")
    assert stepped() == wanted


@pytest.mark.parametrize("index", [torch.uint16, torch.uint32], ids=str)
@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("kind", [*STEPPERS, SparseAdam], ids=lambda kind: kind.__name__)
def test_steps_of_a_table_have_the_bits_of_the_cpus(
    index: torch.dtype, columns: int, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_row, rows, places = 20, 30, [0, 1, 3]

    def stepped(*, compact: bool) -> list[bytes]:
        parameter = nn.Parameter(numbers(rows, columns, seed=99))
        optimizer = kind([parameter], 0.003, (0.9, 0.99), 1e-7)
        for step in range(1, 7):
            gradients, lists = touched_rows(3, columns, rows, first_row, index)
            full = whole(gradients, lists, rows, first_row)
            there = [
                Addend(0, g, each.touched, numbers) for g, each, numbers in zip(gradients, full, lists, strict=True)
            ]
            addends = [replace(each, leaf=p) for p, each in zip(places, there if compact else full, strict=True)]
            optimizer.set_global_norm(float(step), rows * columns)
            optimizer.reduce_and_step(parameter, parameter.data.clone(), addends, first_row=first_row, scale=0.25)
        return bits(parameter.data, *state_of(optimizer, parameter))

    wanted = stepped(compact=False)
    monkeypatch.setattr(backend, "NATIVE", "cuda")
    assert stepped(compact=True) == wanted


def test_blocks_and_orders_change_no_bit(cpu: CpuLauncher) -> None:
    gradients, lists = touched_rows(3, 8, 30, 0, torch.uint16)

    def stepped() -> list[bytes]:
        tensors = [numbers(30, 8, seed=1), numbers(30, 8, seed=2), numbers(30, 8, seed=3).abs()]
        kernels.step_rows("Adam", [tensors[0], *tensors], gradients, lists, [0, 1, 2], ADAM, [0, 0])
        dense = [tensor.clone() for tensor in tensors]
        kernels.step("Adam", [dense[0], *dense], [numbers(30, 8, seed=4)], [0], ADAM)
        return bits(*tensors, *dense)

    wanted = stepped()
    for cpu.threads, cpu.backward in ((1, False), (2, True), (64, False), (1024, True)):
        assert stepped() == wanted


def test_places_that_are_too_far_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="places 3 to 64: a node of 128; reduce nodes of 64 first"):
        kernels.leaves_of([3, 64])
    assert kernels.leaves_of([64, 66, 127]) == (64, [0, 2, 63])


def test_any_number_of_touched_rows_has_a_grid(cpu: CpuLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table of a recommender in a step of groups: along y, a grid has 65,535 blocks of 128 rows."""
    grids = {}

    def note(source: Source, kernel: str, extent: Extent, _: Sequence[Argument]) -> None:
        grids[kernel] = _native.grid(extent, source.kernels[kernel].threads)

    monkeypatch.setattr(cpu, "launch", note)
    count = 65_535 * 128 + 1
    gradients = [torch.empty(count, 1), torch.empty(5, 1)]
    lists = [torch.empty(len(gradient), dtype=torch.uint32) for gradient in gradients]
    kernels.reduce_rows(torch.empty(count, 1), gradients, lists, [0, 1], 1.0, 0, False)
    assert grids["find_rows"] == ((2 * 65_535 + 1, 1), (1, 128))
    assert set(grids) == {"find_rows", "reduce_rows"}

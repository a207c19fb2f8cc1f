"""Sums and steps as operations of torch, against the CPU's kernels: the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels import rule
from pool.kernels.reduction import Addend, Reduction, reduce_by_torch
from pool.optim import Adam, AdamW, RangerLite, SparseAdam

PLACES = [[5], [0, 1, 2, 3], [0, 2, 3], [3, 17, 33, 34]]
FIRST, ROWS, COLUMNS = 20, 300, 8
Kind = type[Adam] | type[RangerLite]
STEPPERS: list[Kind] = [Adam, AdamW, RangerLite]


def numbers(*shape: int, seed: int) -> Tensor:
    """Of magnitudes far apart, so that another order of adding shows in the bits; zeros of both signs."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape) * rng.integers(0, 2, shape)
    return torch.from_numpy(made.astype(np.float32))


def rows_of(places: list[int]) -> list[Addend]:
    """Of each place some rows of a table, compact."""
    found = []
    for place in places:
        chosen = FIRST + np.flatnonzero(np.random.default_rng(place).random(ROWS) < 0.6)
        touched = chosen.astype(np.uint16)
        gradient = numbers(len(touched), COLUMNS, seed=place)
        found.append(Addend(place, gradient, touched, torch.from_numpy(touched)))
    return found


def bits(*tensors: Tensor) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_sums(places: list[int], scale: float) -> None:
    gradients = [numbers(1000, seed=place) for place in places]
    wanted, found = torch.empty(1000), torch.empty(1000)
    _native.reduce(wanted, gradients, leaves=places, scale=scale, threads=1)
    addends = [Addend(place, gradient, None) for place, gradient in zip(places, gradients, strict=True)]
    reduce_by_torch(found, Reduction(addends, scale))
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("touched_only", [False, True])
def test_sums_of_rows(places: list[int], touched_only: bool) -> None:
    addends = rows_of(places)
    wanted, found = torch.full((ROWS, COLUMNS), 7.0), torch.full((ROWS, COLUMNS), 7.0)
    sources = [(each.gradient, each.touched) for each in addends if each.touched is not None]
    _native.reduce_rows(
        wanted, sources, leaves=places, scale=0.5, first_row=FIRST, touched_only=touched_only, threads=1
    )
    reduce_by_torch(found, Reduction(addends, 0.5, FIRST, touched_only))
    assert bits(found) == bits(wanted)


def test_gradients_of_bfloat16_are_added_up_as_their_float32() -> None:
    """Beside others, dense and by rows: the operations above are of the same sums."""
    places = [0, 2, 3]
    addends = rows_of(places)
    narrow = [each.gradient if each.leaf == 2 else each.gradient.bfloat16() for each in addends]
    found, wanted = torch.full((2, ROWS, COLUMNS), 7.0), torch.full((2, ROWS, COLUMNS), 7.0)
    for out, gradients in ((found, narrow), (wanted, [each.float() for each in narrow])):
        rows = [replace(addend, gradient=gradient) for addend, gradient in zip(addends, gradients, strict=True)]
        reduce_by_torch(out[0], Reduction(rows, 0.5, FIRST, touched_only=True))
        dense = [Addend(place, gradient[:100], None) for place, gradient in zip(places, gradients, strict=True)]
        reduce_by_torch(out[1, :100], Reduction(dense, 0.5))
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("kind", STEPPERS, ids=lambda kind: kind.__name__)
def test_steps(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = range(1, 8)  # so that RangerLite looks ahead

    def stepped() -> list[bytes]:
        parameter = nn.Parameter(numbers(10_000, seed=99))
        optimizer = kind([parameter], 0.003, weight_decay=0.1)
        for step in steps:
            gradients = [numbers(10_000, seed=10 * step + place) for place in (0, 1, 2)]
            addends = [Addend(place, gradient, None) for place, gradient in enumerate(gradients)]
            optimizer.set_global_norm(float(step), 10_000)
            optimizer.reduce_and_step(parameter, parameter.data.clone(), addends, scale=0.25)
        return bits(parameter, *map(torch.as_tensor, optimizer.state[parameter].values()))

    wanted = stepped()
    monkeypatch.setattr(rule, "backend_of", lambda _: "torch")
    assert stepped() == wanted


@pytest.mark.parametrize("kind", [*STEPPERS, SparseAdam], ids=lambda kind: kind.__name__)
def test_steps_of_a_table(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    def stepped() -> list[bytes]:
        parameter = nn.Parameter(numbers(ROWS, COLUMNS, seed=99))
        optimizer = kind([parameter], 0.003)
        for step, places in enumerate(2 * PLACES, start=1):
            optimizer.set_global_norm(float(step), ROWS * COLUMNS)
            optimizer.reduce_and_step(parameter, parameter.data.clone(), rows_of(places), first_row=FIRST, scale=0.25)
        return bits(parameter, *map(torch.as_tensor, optimizer.state[parameter].values()))

    wanted = stepped()
    monkeypatch.setattr(rule, "backend_of", lambda _: "torch")
    assert stepped() == wanted

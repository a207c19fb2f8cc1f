"""Native forward and backward of the sparse layer, against sums in double precision."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pool import _native
from pool.nn.batch import SparseInput
from tests.pool.kernels import reference
from tests.pool.kernels.sparse_inputs import input_of, random_input

WIDTHS = [1, 7, 8, 16, 33, 64, 100, 256, 272, 300]


def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput, threads: int = 1) -> Tensor:
    out = torch.full((sparse.num_bags, weight.shape[1]), torch.nan)
    _native.sparse_forward(weight, bias, sparse.offsets, sparse.features, out, threads)
    return out


def backward(sparse: SparseInput, grad_out: Tensor, num_features: int, threads: int = 1) -> Tensor:
    """Rows that were not written hold 7."""
    grad = torch.full((num_features, grad_out.shape[1]), 7.0)
    _native.sparse_backward_rows(sparse.touched, sparse.touched_offsets, sparse.bags, grad_out, grad, threads=threads)
    return grad


def backward_in_double(sparse: SparseInput, grad_out: Tensor, num_features: int) -> Tensor:
    grad = torch.full((num_features, grad_out.shape[1]), 7.0, dtype=torch.float64)
    reference.backward_rows(sparse, grad_out.double(), grad)
    return grad


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("num_features", [1, 50])
def test_forward_adds_the_rows_of_each_bag(width: int, num_features: int) -> None:
    sparse = random_input(90, num_features, seed=width)
    generator = torch.Generator().manual_seed(width)
    weight = torch.randn(num_features, width, generator=generator)
    bias = torch.randn(width, generator=generator)
    for start in (bias, None):
        wanted = reference.forward(weight.double(), None if start is None else start.double(), sparse)
        torch.testing.assert_close(forward(weight, start, sparse).double(), wanted, rtol=1e-6, atol=2e-6)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("num_features", [1, 50])
def test_backward_writes_touched_rows_and_no_others(width: int, num_features: int) -> None:
    sparse = random_input(90, num_features, seed=width)
    grad_out = torch.randn(90, width, generator=torch.Generator().manual_seed(width))
    wanted = backward_in_double(sparse, grad_out, num_features)
    grad = backward(sparse, grad_out, num_features)
    torch.testing.assert_close(grad.double(), wanted, rtol=1e-6, atol=5e-6)
    untouched = torch.ones(num_features, dtype=torch.bool)
    untouched[sparse.touched.long()] = False
    assert (grad[untouched] == 7).all()


@pytest.mark.usefixtures("simd_level")
def test_feature_and_bag_numbers_may_need_32_bits() -> None:
    sparse = random_input(70_000, 80_000, most=2)
    assert sparse.features.dtype == sparse.bags.dtype == torch.uint32
    weight, grad_out = torch.randn(80_000, 17), torch.randn(70_000, 17)
    wanted = reference.forward(weight.double(), None, sparse)
    torch.testing.assert_close(forward(weight, None, sparse).double(), wanted, rtol=1e-6, atol=2e-6)
    wanted = backward_in_double(sparse, grad_out, 80_000)
    torch.testing.assert_close(backward(sparse, grad_out, 80_000).double(), wanted, rtol=1e-6, atol=2e-6)


@pytest.mark.usefixtures("simd_level")
def test_sums_run_left_to_right_from_the_bias() -> None:
    sparse = input_of([[3, 1, 0, 2]], 4)
    weight = torch.tensor([[1e8], [-1e8], [1.0], [3.0]])
    # (((0.25 + 3) - 1e8) + 1e8) + 1: what comes before the big numbers is lost, what comes after is not
    assert forward(weight, torch.tensor([0.25]), sparse).item() == 1.0
    grad = backward(input_of([[0], [0], [0], [0]], 1), torch.tensor([[3.0], [-1e8], [1e8], [1.0]]), 1)
    assert grad.item() == 1.0


@pytest.mark.usefixtures("best_level")
@pytest.mark.parametrize("width", [1, 8, 16, 33, 256])
def test_bits_do_not_depend_on_threads_or_level(width: int) -> None:
    num_features = 600
    sparse = random_input(500, num_features, most=30)
    weight, bias, grad_out = torch.randn(num_features, width), torch.randn(width), torch.randn(500, width)
    results = []
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        for threads in (1, 2, 3, 8):
            column_sum = torch.empty(width)
            _native.column_sum(grad_out, column_sum, threads)
            results.append(
                (
                    forward(weight, bias, sparse, threads),
                    backward(sparse, grad_out, num_features, threads),
                    column_sum,
                )
            )
    for result in results[1:]:
        for tensor, first in zip(result, results[0], strict=True):
            assert torch.equal(tensor, first)


@pytest.mark.usefixtures("simd_level")
def test_large_outputs_past_the_caches_are_complete() -> None:
    sparse = random_input(2100, 3000, most=12)
    weight, grad_out = torch.randn(3000, 272), torch.randn(2100, 272)
    wanted = reference.forward(weight.double(), None, sparse)
    torch.testing.assert_close(forward(weight, None, sparse, 2).double(), wanted, rtol=1e-6, atol=2e-6)
    wanted = backward_in_double(sparse, grad_out, 3000)
    torch.testing.assert_close(backward(sparse, grad_out, 3000, 2).double(), wanted, rtol=1e-6, atol=5e-6)


@pytest.mark.usefixtures("simd_level")
def test_backward_of_row_ranges_equals_backward_of_all() -> None:
    sparse = random_input(200, 300)
    grad_out = torch.randn(200, 48)
    grad = torch.full((300, 48), 7.0)
    borders = [0, 5, 5, 120, sparse.touched.numel()]
    for first, last in pairwise(borders):
        _native.sparse_backward_rows(
            sparse.touched, sparse.touched_offsets, sparse.bags, grad_out, grad, first=first, last=last, threads=2
        )
    assert torch.equal(grad, backward(sparse, grad_out, 300))


@given(bags=st.lists(st.lists(st.integers(0, 19), max_size=6, unique=True), max_size=12), width=st.integers(1, 40))
def test_any_bags_agree_with_the_reference(bags: list[list[int]], width: int) -> None:
    sparse = input_of(bags, 20)
    weight, bias = torch.randn(20, width), torch.randn(width)
    wanted = reference.forward(weight.double(), bias.double(), sparse)
    torch.testing.assert_close(forward(weight, bias, sparse).double(), wanted, rtol=1e-6, atol=2e-6)
    grad_out = torch.randn(len(bags), width)
    wanted = backward_in_double(sparse, grad_out, 20)
    torch.testing.assert_close(backward(sparse, grad_out, 20).double(), wanted, rtol=1e-6, atol=2e-6)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 700])
@pytest.mark.parametrize("width", [1, 8, 33, 256, 300])
def test_column_sum_adds_the_rows(rows: int, width: int) -> None:
    matrix = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))
    out = torch.full((width,), torch.nan)
    _native.column_sum(matrix, out, threads=2)
    torch.testing.assert_close(out.double(), matrix.double().sum(0), rtol=1e-6, atol=2e-5)


def test_torch_tensors_and_read_only_numpy_arrays_are_read_where_they_lie() -> None:
    sparse = random_input(30, 40)
    weight, bias = torch.randn(40, 16), torch.randn(16)
    table, start, offsets, features = (
        array.numpy().copy() for array in (weight, bias, sparse.offsets, sparse.features)
    )
    for array in (table, start, offsets, features):
        array.flags.writeable = False
    out = np.empty((30, 16), np.float32)
    _native.sparse_forward(table, start, offsets, features, out)
    assert torch.equal(torch.from_numpy(out), forward(weight, bias, sparse))


def test_a_read_only_array_is_never_written() -> None:
    sparse = random_input(30, 40)
    out = np.zeros((30, 16), np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="incompatible"):
        _native.sparse_forward(torch.randn(40, 16), None, sparse.offsets, sparse.features, out)
    assert not out.any()


def _u32(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64).to(torch.uint32)


def _u16(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64).to(torch.uint16)


GOOD_FORWARD: dict[str, Any] = {
    "weight": torch.ones(4, 8),
    "bias": torch.ones(8),
    "offsets": _u32(0, 2, 3),
    "features": _u16(1, 3, 0),
    "out": torch.zeros(2, 8),
    "threads": 1,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": _u16(1, 4, 0)}, "features holds 4, but there are 4 rows in weight"),
        ({"offsets": _u32(0, 3, 2)}, r"offsets\[2\] = 2 is below offsets\[1\] = 3"),
        ({"offsets": _u32(0, 2, 4)}, r"offsets\[2\] = 4 is beyond the 3 numbers"),
        ({"offsets": _u32(1, 2, 3)}, "offsets go from 1 to 3, but must go from 0 to the 3 features"),
        ({"offsets": _u32(0, 1, 2)}, "offsets go from 0 to 2"),
        ({"offsets": _u32()}, "offsets is empty"),
        ({"offsets": torch.tensor([0, 2, 3])}, "offsets must be uint32"),
        ({"features": torch.tensor([1, 3, 0])}, "features must be uint16 or uint32"),
        ({"features": _u16(1, 3, 0)[None]}, "features has 2 dimensions, must have 1"),
        ({"weight": torch.ones(4, 8, dtype=torch.float64)}, "weight must be float32"),
        ({"weight": torch.ones(8, 4).t()}, "weight is not contiguous: dimension 1 has stride 4, not 1"),
        ({"bias": torch.ones(7)}, "bias has 7 numbers, must have 8"),
        ({"out": torch.zeros(3, 8)}, r"out is \[3, 8\], but offsets and weight make it \[2, 8\]"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_forward_refuses_what_does_not_fit(change: dict[str, Any], message: str) -> None:
    arguments = {**GOOD_FORWARD, "out": torch.zeros(2, 8), **change}
    with pytest.raises(ValueError, match=message):
        _native.sparse_forward(**arguments)
    assert not arguments["out"].any()


GOOD_BACKWARD: dict[str, Any] = {
    "touched": _u16(0, 1, 3),
    "touched_offsets": _u32(0, 1, 2, 4),
    "bags": _u16(1, 0, 0, 1),
    "grad_out": torch.ones(2, 8),
    "grad_weight": torch.zeros(4, 8),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"touched": _u16(0, 1, 4)}, "touched holds 4, but there are 4 rows in grad_weight"),
        ({"touched": _u16(0, 3, 3)}, "touched is not strictly ascending"),
        ({"touched": _u16(0, 1)}, "touched_offsets has 4 numbers, but must have one more than the 2 of touched"),
        ({"touched_offsets": _u32(0, 2, 1, 4)}, r"touched_offsets\[2\] = 1 is below touched_offsets\[1\] = 2"),
        ({"touched_offsets": _u32(0, 1, 2, 5)}, "beyond the 4 numbers"),
        ({"bags": _u16(1, 0, 2, 1)}, "bags holds 2, but there are 2 rows in grad_out"),
        ({"grad_out": torch.ones(2, 9)}, "grad_weight has 8 columns and grad_out 9"),
        ({"grad_weight": torch.zeros(4, 16)[:, ::2]}, "grad_weight is not contiguous"),
        ({"first": 2, "last": 1}, "rows 2 to 1 are not within the 3 touched ones"),
        ({"last": 4}, "rows 0 to 4 are not within the 3 touched ones"),
    ],
)
def test_backward_refuses_what_does_not_fit(change: dict[str, Any], message: str) -> None:
    arguments = {**GOOD_BACKWARD, "grad_weight": torch.zeros(4, 8), **change}
    with pytest.raises(ValueError, match=message):
        _native.sparse_backward_rows(**arguments)
    assert not arguments["grad_weight"].any()


def test_an_unknown_simd_level_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'sse9' is not one that this CPU has: baseline"):
        _native.set_simd_level("sse9")

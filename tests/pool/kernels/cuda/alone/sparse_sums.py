"""Sums of table rows per list, against sums in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from pool.kernels.cuda import sparse as kernels
from pool.nn.batch import SparseInput
from tests.pool.kernels import reference
from tests.pool.kernels.cuda.on_cpu import CpuLauncher
from tests.pool.kernels.sparse_inputs import input_of, random_input, random_values

WIDTHS = [1, 7, 8, 16, 300, 520]  # the last is more than one block of columns
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def bags_with_a_feature_everywhere() -> SparseInput:
    """Feature 3 is in all of 1,100 bags, feature 7 in 257, feature 9 in 256, others here and there."""
    rng = np.random.default_rng(5)
    bags = []
    for i in range(1100):
        some = [] if i % 10 == 0 else rng.choice(np.arange(10, 60), int(rng.integers(0, 6)), replace=False).tolist()
        bags.append(sorted({3, *([7] if i < 257 else []), *([9] if i >= 844 else []), *some}))
    return input_of(bags, 64)


CASES: dict[str, tuple[Callable[[], SparseInput], int]] = {
    "many bags": (lambda: random_input(90, 50), 50),
    "one feature": (lambda: random_input(90, 1), 1),
    "one bag": (lambda: input_of([[4, 9, 2]], 50), 50),
    "empty bags": (lambda: input_of([[], [], []], 50), 50),
    "no bags": (lambda: input_of([], 50), 50),
    "one empty among others": (lambda: input_of([[1], [], [1, 2, 3, 4, 5]], 50), 50),
    "everywhere": (bags_with_a_feature_everywhere, 64),
}


def table(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)).to(dtype)


def in_double(rows: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    return reference.forward(rows.double(), None if bias is None else bias.double(), sparse)


def close(found: Tensor, wanted: Tensor, terms: int = 8) -> None:
    allowed = TOLERANCE[found.dtype] * max(1, terms) ** 0.5
    torch.testing.assert_close(found.double(), wanted, rtol=allowed, atol=allowed)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_forward_and_backward_add_the_rows_of_each_list(case: str, width: int, dtype: torch.dtype) -> None:
    make, features = CASES[case]
    sparse = make()
    weight, bias, gradient = (
        table(features, width, dtype),
        table(1, width, dtype)[0],
        table(sparse.num_bags, width, dtype),
    )
    for start in (bias, None):
        found = kernels.sum_lists(weight, sparse.features, sparse.offsets, None, start)
        close(found, in_double(weight, start, sparse))
    found = kernels.sum_long_lists(gradient, sparse.bags, sparse.touched_offsets, None)
    close(found, reference.touched_rows(sparse, gradient.double()), 1100)
    close(kernels.column_sums(gradient), gradient.double().sum(0), 1100)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(("width", "dtype"), [(7, torch.float32), (16, torch.float32), (16, torch.bfloat16)])
def test_rows_are_multiplied_by_their_values(width: int, dtype: torch.dtype) -> None:
    sparse = random_values(random_input(600, 20))
    weight, gradient = table(20, width, dtype), table(600, width, dtype)
    found = kernels.sum_lists(weight, sparse.features, sparse.offsets, sparse.values, None)
    close(found, in_double(weight, None, sparse))
    found = kernels.sum_long_lists(gradient, sparse.bags, sparse.touched_offsets, sparse.column_values)
    close(found, reference.touched_rows(sparse, gradient.double()), 600)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("width", [3, 4])
def test_numbers_may_need_32_bits(width: int) -> None:
    sparse = random_input(70_000, 80_000, most=2)
    assert sparse.features.dtype == sparse.bags.dtype == torch.uint32
    weight, gradient = table(80_000, width), table(70_000, width)
    close(kernels.sum_lists(weight, sparse.features, sparse.offsets, None, None), in_double(weight, None, sparse))
    found = kernels.sum_long_lists(gradient, sparse.bags, sparse.touched_offsets, None)
    close(found, reference.touched_rows(sparse, gradient.double()))


@pytest.mark.usefixtures("cpu")
def test_sums_run_left_to_right_from_the_bias() -> None:
    sparse = input_of([[3, 1, 0, 2]], 4)
    weight = torch.tensor([[1e8], [-1e8], [1.0], [3.0]])
    # (((0.25 + 3) - 1e8) + 1e8) + 1: what comes before the big numbers is lost, what comes after is not
    assert kernels.sum_lists(weight, sparse.features, sparse.offsets, None, torch.tensor([0.25])).item() == 1.0


@pytest.mark.usefixtures("cpu")
def test_a_long_list_is_summed_in_pieces_from_its_beginning() -> None:
    """Wherever it lies: what comes before it moves no border."""
    rows = table(2000, 1)
    for before in (0, 1, 255, 256, 300):
        lengths = [before, 700]
        offsets = torch.tensor([0, before, before + 700], dtype=torch.uint32)
        numbers = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]).astype(np.uint16))
        pieces = [left_to_right(rows[begin : min(begin + 256, 700), 0]) for begin in (0, 256, 512)]
        wanted = left_to_right(torch.stack(pieces))
        assert kernels.sum_long_lists(rows, numbers, offsets, None)[1, 0] == wanted


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("seed", range(30))
def test_lists_of_any_lengths_are_cut_without_losing_a_piece(seed: int) -> None:
    """Numbers are small integers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 2, 100, 255, 256, 257, 511, 512, 513, 700, 1300], 12)
    offsets = torch.from_numpy(np.cumsum([0, *lengths]).astype(np.uint32))
    numbers = torch.from_numpy(rng.integers(0, 50, int(lengths.sum())).astype(np.uint16))
    rows = torch.from_numpy(rng.integers(-50, 50, (50, 1)).astype(np.float32))
    cut = torch.split(rows[numbers.long(), 0], lengths.tolist())
    assert kernels.sum_long_lists(rows, numbers, offsets, None)[:, 0].tolist() == [part.sum().item() for part in cut]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_same_bits_in_two_runs_and_for_other_blocks_and_orders(cpu: CpuLauncher, dtype: torch.dtype) -> None:
    sparse = bags_with_a_feature_everywhere()
    weight, bias, gradient = table(64, 16, dtype), table(1, 16, dtype)[0], table(1100, 16, dtype)

    def bits() -> list[bytes]:
        tensors = (
            kernels.sum_lists(weight, sparse.features, sparse.offsets, None, bias),
            kernels.sum_long_lists(gradient, sparse.bags, sparse.touched_offsets, None),
            kernels.column_sums(gradient),
        )
        return [tensor.view(torch.uint8).numpy().tobytes() for tensor in tensors]

    wanted = bits()
    for cpu.threads, cpu.backward in ((None, False), (None, True), (1, False), (2, True), (64, False), (1024, True)):
        assert bits() == wanted


@pytest.mark.usefixtures("cpu")
def test_a_table_that_is_not_aligned_is_read_number_by_number() -> None:
    sparse = random_input(90, 50)
    weight = torch.empty(50 * 8 + 1)[1:].view(50, 8).copy_(table(50, 8))
    close(kernels.sum_lists(weight, sparse.features, sparse.offsets, None, None), in_double(weight, None, sparse))


@pytest.mark.usefixtures("cpu")
def test_what_is_not_finite_stays_so() -> None:
    weight = torch.tensor([[torch.inf], [torch.nan], [1.0]])
    for dtype in TOLERANCE:
        sparse = input_of([[0], [1], [0, 2], [2]], 3)
        found = kernels.sum_lists(weight.to(dtype), sparse.features, sparse.offsets, None, None)[:, 0]
        assert found[[0, 2]].isposinf().all()
        assert found[1].isnan()
        assert found[3] == 1


@pytest.mark.usefixtures("cpu")
def test_bfloat16_is_rounded_once_to_nearest_even() -> None:
    numbers = torch.randn(4096, generator=torch.Generator().manual_seed(1)).bfloat16().view(2048, 2)
    sparse = input_of([[2 * i, 2 * i + 1] for i in range(1024)], 2048)
    found = kernels.sum_lists(numbers, sparse.features, sparse.offsets, None, None)
    assert torch.equal(found, (numbers[0::2].float() + numbers[1::2].float()).bfloat16())


def left_to_right(numbers: Tensor) -> Tensor:
    total = torch.zeros(())
    for number in numbers:
        total = total + number
    return total


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_rows_of_bfloat16_beside_a_float32_start_are_added_in_float32(case: str, width: int, cpu: CpuLauncher) -> None:
    """With the bits of the same numbers in float32, in both orders of threads; with values, too."""
    make, features = CASES[case]
    rows, start = table(features, width, torch.bfloat16), table(1, width)[0]
    for sparse in (make(), random_values(make())):
        lists = sparse.features, sparse.offsets, sparse.values
        wanted = kernels.sum_lists(rows.float(), *lists, start)
        for cpu.backward in (False, True):
            found = kernels.sum_lists(rows, *lists, start)
            assert found.dtype == torch.float32
            assert torch.equal(found, wanted)

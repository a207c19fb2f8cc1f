"""The sum of squares: the bits of native code."""

from __future__ import annotations

import math

import pytest
import torch

from pool import _native
from pool.kernels.norm import CHUNK, sum_of_squares
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

SIZES = (1, 7, 8, 9, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 13, CHUNK * CHUNK + 3)


@pytest.mark.parametrize("size", SIZES)
def test_it_has_the_bits_of_native_code(size: int, cpu: CpuLauncher) -> None:
    numbers = torch.randn(size, generator=torch.Generator().manual_seed(size)) * 1e20  # its squares are no float32
    for cpu.threads, cpu.backward in ((None, False), (1, True), (1024, False)):
        found = float(sum_of_squares(numbers))
        for threads in (1, 2, 5):
            assert _native.sum_of_squares(numbers, threads=threads) == found
    assert found == pytest.approx(math.fsum(float(each) ** 2 for each in numbers), rel=1e-12)


@pytest.mark.usefixtures("cpu")
def test_nothing_is_zero_and_what_is_not_finite_stays() -> None:
    assert float(sum_of_squares(torch.empty(0))) == 0 == _native.sum_of_squares(torch.empty(0))
    assert math.isnan(float(sum_of_squares(torch.tensor([1.0, torch.nan]))))
    assert float(sum_of_squares(torch.tensor([1.0, -torch.inf]))) == math.inf


def test_a_large_gradient_is_read_once(cpu: CpuLauncher) -> None:
    sum_of_squares(torch.zeros(CHUNK * CHUNK + 1, 1))
    assert cpu.launched == ["square_chunks", "sum_chunks", "sum_chunks"]

"""Fake quantization, and rows of bfloat16, by kernels have the bits of torch's operations on a CPU."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from pool.nn.batch import SparseInput
from pool.tasks.chess.cuda.effective_weights import ROUNDING_MODES, ParameterTransform, apply_transform
from pool.tasks.chess.quantization import Rounding, RoundingMode
from pool.tasks.chess.training.fake_quantization import RoundedSparseLinear, fake_round
from tests.pool.kernels.cuda.on_cpu import CpuLauncher, without_kernels
from tests.pool.kernels.sparse_inputs import input_of, random_input

ROWS = 40
# halves, what is just below them, whole numbers, either sign, what is not finite
NUMBERS = (torch.arange(-40, 40).repeat_interleave(3) / 8 + torch.tensor([0.0, 1e-4, -1e-4]).repeat(80)).double()


def test_the_ways_are_those_of_the_rules() -> None:
    assert ("", *get_args(RoundingMode)) == ROUNDING_MODES


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("mode", get_args(RoundingMode))
def test_tensors_are_rounded_with_what_is_shared(mode: RoundingMode) -> None:
    first, second = NUMBERS.float().view(4, 6, 10), torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0]).view(4, 1)
    shared = first[2] / 3
    rule = Rounding(4.0, np.int8, mode=mode)
    found = apply_transform(
        ParameterTransform(0.75, ((4.0, ROUNDING_MODES.index(mode)),) * 2), [first, second], [shared]
    )
    for each, wanted in zip(found, (fake_round(first + shared, rule) * 0.75, fake_round(second, rule)), strict=True):
        assert torch.equal(each.view(torch.int32), wanted.view(torch.int32)) or torch.equal(
            each.isnan(), wanted.isnan()
        )
        assert torch.equal(each.nan_to_num(7.0), wanted.nan_to_num(7.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", get_args(RoundingMode))
@pytest.mark.parametrize("rules", ["both", "rows", "bias", "none"])
def test_rows_are_rounded_with_those_that_are_added(
    rules: str, mode: RoundingMode, dtype: torch.dtype, cpu: CpuLauncher
) -> None:
    rule, bias_rule = Rounding(16.0, np.int16, mode=mode), Rounding(8.0, np.int16, mode=mode)
    virtual = np.full(ROWS, -1)
    virtual[:20], virtual[30:] = 30 + np.arange(20) // 2, np.arange(30, ROWS)
    layer = RoundedSparseLinear(
        ROWS,
        7,
        field="features",
        rule=rule if rules in ("both", "rows") else None,
        bias_rule=bias_rule if rules in ("both", "bias") else None,
        virtual_rows=virtual,
        rows_dtype=dtype,
    )
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-64, 64, layer.weight.shape) / 32 * (1 + 2**-8))
    sparse = random_input(9, ROWS)
    touched = sparse.touched.long()
    found = layer.effective_parameters(layer.weight, layer.bias, sparse)
    assert found[0].dtype == dtype
    assert cpu.launched == ([] if (rules, dtype) == ("none", torch.float32) else ["rounded_rows"])
    for each, want in zip(found, by_torch(layer, sparse), strict=True):
        assert each is not None
        assert want is not None
        assert torch.equal(picked(each, touched), picked(want, touched))


HIGHEST = torch.finfo(torch.float32).max
ODD = [torch.inf, -torch.inf, torch.nan, HIGHEST, -HIGHEST, 3.3895313892515355e38, 3.397e38, 0.0, -0.0, 1e-45, -1e-40]
HALVES = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8]  # between two numbers of bfloat16, and beyond


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("backward", [False, True])
def test_odd_numbers_become_what_torch_makes_of_them(backward: bool, cpu: CpuLauncher) -> None:
    cpu.backward = backward
    numbers = [*ODD, *HALVES]
    layer = RoundedSparseLinear(3, len(numbers), field="features", rule=None, rows_dtype=torch.bfloat16)
    with torch.no_grad():
        layer.weight[1] = torch.tensor(numbers)
    sparse = input_of([[1]], 3)
    found, wanted = (
        made[0][1].float() for made in (layer.effective_parameters(layer.weight, None, sparse), by_torch(layer, sparse))
    )
    assert found[:2].tolist() == [torch.inf, -torch.inf]
    assert found[3:7].tolist() == [torch.inf, -torch.inf, ODD[5], torch.inf]  # largest of bfloat16, and more
    assert found[-4:].tolist() == [1.0, 1 + 2**-6, 1 + 2**-7, -1.0]
    assert torch.equal(found.isnan(), torch.tensor(numbers).isnan())
    assert torch.equal(found.nan_to_num(7.0).view(torch.int32), wanted.nan_to_num(7.0).view(torch.int32))


def by_torch(layer: RoundedSparseLinear, sparse: SparseInput) -> tuple[Tensor, Tensor | None]:
    with without_kernels():
        return layer.effective_parameters(layer.weight, layer.bias, sparse)


def picked(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor if tensor.ndim == 1 else tensor[rows].float()

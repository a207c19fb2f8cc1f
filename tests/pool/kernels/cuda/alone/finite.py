"""Which gradients are finite, and what has come of a group's batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pool.kernels.finite import FLOAT32_LIMIT, Outcomes, find_infinite
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

SIZES = (0, 1, 255, 256, 257, 1000, 8192)
DEVICE = torch.device("cpu")


def read(outcomes: Outcomes, losses: Tensor, flags: list[Tensor]) -> tuple[list[float], list[bool]]:
    return outcomes.decode(outcomes.gather(losses, flags).numpy())


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(number: float, cpu: CpuLauncher) -> None:
    for cpu.threads in (None, 1, 1024):
        for which, size in enumerate(SIZES):
            for at in {0, size // 2, size - 1} if size else ():
                tensors = [torch.full((each,), 3.4e38) for each in SIZES]
                tensors[which][at] = number
                found = torch.full((len(SIZES) + 2,), 5, dtype=torch.int32)
                find_infinite(found, tensors, [FLOAT32_LIMIT] * len(SIZES), torch.tensor([1.5, -2.0]), 9)
                assert found[: len(SIZES)].tolist() == [9 if each == which else 5 for each in range(len(SIZES))]
                assert found[len(SIZES) :].view(torch.float32).tolist() == [1.5, -2.0]


@pytest.mark.parametrize("kernels", [True, False])
def test_what_rounding_makes_infinite_is_found(kernels: bool, request: pytest.FixtureRequest) -> None:
    """The largest numbers that are rounded to a finite bfloat16, and their next ones."""
    if kernels:
        request.getfixturevalue("cpu")
    bits = [0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 1, 0]
    numbers = np.array([sign | each for each in bits for sign in (0, 1 << 31)], np.uint32).view(np.float32)
    outcomes = Outcomes(DEVICE, 64)
    flags: list[Tensor] = []
    outcomes.start_group()
    outcomes.start_batch()
    for number in numbers:
        tensor = torch.tensor([0.0, float(number)])
        flags += [outcomes.check(tensor), outcomes.check(tensor, torch.bfloat16)]
    found = read(outcomes, torch.tensor([0.5]), flags)[1]
    tensors = torch.from_numpy(numbers)
    assert found[::2] == tensors.isfinite().tolist()
    assert found[1::2] == tensors.to(torch.bfloat16).isfinite().tolist()
    assert found != [found[0]] * len(found)


def test_more_tensors_than_a_launch_takes(cpu: CpuLauncher) -> None:
    tensors = [torch.full((3,), torch.nan if i in (0, 63, 64, 129) else 1.0) for i in range(130)]
    found = torch.zeros(132, dtype=torch.int32)
    find_infinite(found, tensors, [FLOAT32_LIMIT] * 130, torch.tensor([7.0, 8.0]), 1)
    assert [i for i in range(130) if found[i]] == [0, 63, 64, 129]
    assert found[130:].view(torch.float32).tolist() == [7.0, 8.0]
    assert len(cpu.launched) == 3


def test_flags_are_each_batchs_own(cpu: CpuLauncher) -> None:
    outcomes = Outcomes(DEVICE, 12)
    sound, broken = torch.ones(40), torch.tensor([1.0, torch.inf])
    for _ in range(2):  # groups
        flags: list[Tensor] = []
        outcomes.start_group()
        for gradients in ((sound, sound), (sound, broken), (broken, sound)):
            outcomes.start_batch()
            flags += map(outcomes.check, gradients)
        found = read(outcomes, torch.tensor([0.5, 0.25, torch.nan]), flags)
        assert found[1] == [True, True, True, False, False, True]
        assert found[0][:2] == [0.5, 0.25]
        assert np.isnan(found[0][2])
    assert len(cpu.launched) == 6


def test_other_types_are_torchs(cpu: CpuLauncher) -> None:
    outcomes = Outcomes(DEVICE, 12)
    outcomes.start_group()
    outcomes.start_batch()
    gradients = (torch.ones(3), torch.tensor([torch.nan]), torch.tensor([torch.inf]).double(), torch.ones(2).bfloat16())
    flags = [outcomes.check(gradient) for gradient in gradients]
    assert read(outcomes, torch.tensor([0.1], dtype=torch.float64), flags) == ([0.1], [True, False, False, True])
    assert cpu.launched == ["find_infinite"]
    assert read(outcomes, torch.tensor([3.0]), []) == ([3.0], [])  # of a validation


def test_without_kernels_torchs_operations_serve() -> None:
    outcomes = Outcomes(DEVICE, 12)
    outcomes.start_group()
    outcomes.start_batch()
    flags = [outcomes.check(torch.ones(3)), outcomes.check(torch.tensor([torch.nan]))]
    assert read(outcomes, torch.tensor([0.5]), flags) == ([0.5], [True, False])

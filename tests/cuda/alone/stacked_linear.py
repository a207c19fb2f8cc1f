"""Linear layers by bucket, against torch in double precision."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pool.cuda.stacked_linear import serves, stacked_linear
from tests.cuda.on_cpu import CpuLauncher

BORDERS = {
    "one bucket": (0, 70),
    "several": (0, 1, 66, 66, 200),  # one sample, more than one piece, none, more than two
    "all in the last": (0, 0, 0, 0, 130),
    "no samples": (0, 0, 0, 0, 0),
}


def tensors(borders: tuple[int, ...], inputs: int, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(inputs)
    buckets = len(borders) - 1
    return (
        torch.randn(borders[-1], inputs, generator=generator),
        torch.randn(buckets, outputs, inputs, generator=generator),
        torch.randn(buckets, outputs, generator=generator),
    )


def results(layer: object, borders: tuple[int, ...], made: tuple[Tensor, ...], dtype: torch.dtype) -> list[Tensor]:
    """The output, then the gradients."""
    leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in made]
    out = layer(*leaves, borders)  # type: ignore[operator]
    out.backward(torch.linspace(-1, 1, out.numel()).view_as(out).to(dtype))
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def by_torch(x: Tensor, weight: Tensor, bias: Tensor, borders: tuple[int, ...]) -> Tensor:
    groups = [x[begin:end] for begin, end in pairwise(borders)]
    return torch.cat([functional.linear(*each) for each in zip(groups, weight, bias, strict=True)])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("case", BORDERS)
@pytest.mark.parametrize(("inputs", "outputs"), [(300, 16), (30, 32), (32, 1), (5, 1), (256, 9)])
def test_forward_and_backward(case: str, inputs: int, outputs: int) -> None:
    borders = BORDERS[case]
    made = tensors(borders, inputs, outputs)
    assert serves(*made[:2])
    found = results(stacked_linear, borders, made, torch.float32)
    wanted = results(by_torch, borders, made, torch.float64)
    for name, each, want in zip(("out", "x", "weight", "bias"), found, wanted, strict=True):
        torch.testing.assert_close(each.double(), want, rtol=1e-5, atol=1e-4, msg=partial("{}: {}".format, name))


def test_the_same_bits_for_other_blocks_and_orders(cpu: CpuLauncher) -> None:
    borders = BORDERS["several"]
    made = tensors(borders, 300, 16)

    def bits() -> list[bytes]:
        return [tensor.numpy().tobytes() for tensor in results(stacked_linear, borders, made, torch.float32)]

    wanted = bits()
    for cpu.threads, cpu.backward in ((None, False), (1, False), (2, True), (1024, True)):
        assert bits() == wanted


def test_launches_do_not_grow_with_buckets(cpu: CpuLauncher) -> None:
    for case in ("one bucket", "several"):
        cpu.launched.clear()
        results(stacked_linear, BORDERS[case], tensors(BORDERS[case], 300, 16), torch.float32)
        assert cpu.launched == [
            "stacked_products", "stacked_join", "stacked_inputs", "stacked_pieces", "stacked_sums", "stacked_sums",
        ]  # fmt: skip


@pytest.mark.usefixtures("cpu")
def test_wide_layers_are_left_to_libraries() -> None:
    made = tensors((0, 3), 8, 65)
    assert not serves(*made[:2])
    assert not serves(made[0].double(), made[1].double())


@pytest.mark.usefixtures("cpu")
def test_torch_finds_the_operations_sound() -> None:
    borders = (0, 2, 5)
    x, weight, bias = tensors(borders, 8, 3)
    of, tests = torch.ops.sparsepool, ("test_schema", "test_faketensor")
    torch.library.opcheck(of.stacked_forward.default, (x, weight, bias, borders), test_utils=tests)
    gradient = torch.randn(5, 3)
    torch.library.opcheck(of.stacked_backward.default, (gradient, x, weight, borders), test_utils=tests)

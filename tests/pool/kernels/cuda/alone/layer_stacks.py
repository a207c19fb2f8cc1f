"""Layer stacks of any form, against torch in double precision."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pool.tasks.chess.cuda.layer_stacks import layer_stacks, serves
from pool.tasks.chess.cuda.stack_form import Hidden, Kind, StackForm
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

BORDERS = {
    "all in the first": (0, 70, 70, 70, 70),
    "several": (0, 1, 66, 66, 200),  # one sample, more than one piece, none, more than two
    "all in the last": (0, 0, 0, 0, 130),
    "no samples": (0, 0, 0, 0, 0),
}
FORMS = {
    "Stockfish's": StackForm((Hidden(16, 15, Kind.BOTH, 0.99), Hidden(32, 32, Kind.CRELU)), 0.98, skip=1),
    "all activations": StackForm(
        (Hidden(32, 30, Kind.BOTH, 1.1), Hidden(9, 7, Kind.BOTH)), 1.0, all_activations=True, skip=2
    ),
    "three hidden": StackForm((Hidden(5, 5, Kind.SCRELU), Hidden(33, 33, Kind.CRELU), Hidden(3, 3, Kind.SCRELU))),
    "none hidden": StackForm(()),
}


def tensors(form: StackForm, borders: tuple[int, ...], inputs: int) -> dict[str, Tensor]:
    """x, extra, parameters, and what is shared of the first layer."""
    generator = torch.Generator().manual_seed(inputs)
    buckets, made = len(borders) - 1, {"x": torch.rand(borders[-1], inputs, generator=generator)}
    made["extra"] = torch.randn(borders[-1], generator=generator)
    for layer, (outputs, width) in enumerate(zip(form.outputs, form.inputs(inputs), strict=True)):
        made[f"weight {layer}"] = torch.randn(buckets, outputs, width, generator=generator) * 2 / width**0.5
        made[f"bias {layer}"] = torch.randn(buckets, outputs, generator=generator) * 0.3
    made["shared weight"] = torch.randn(made["weight 0"].shape[1:], generator=generator) / inputs**0.5
    made["shared bias"] = torch.randn(made["bias 0"].shape[1:], generator=generator) * 0.3
    return made


def by_kernels(form: StackForm, borders: tuple[int, ...], given: dict[str, Tensor]) -> Tensor:
    x, extra, *parameters, weight, bias = given.values()
    return layer_stacks(form, x, extra, borders, parameters, (weight, bias))


def by_torch(form: StackForm, borders: tuple[int, ...], given: dict[str, Tensor]) -> Tensor:
    x, extra, *parameters, weight, bias = given.values()
    parameters = [parameters[0] + weight, parameters[1] + bias, *parameters[2:]]
    out = [
        one_stack(form, x[begin:end], [parameter[bucket] for parameter in parameters])
        for bucket, (begin, end) in enumerate(pairwise(borders))
    ]
    return torch.cat(out) + extra


def one_stack(form: StackForm, x: Tensor, parameters: list[Tensor]) -> Tensor:
    seen, skipped = [x], torch.zeros(())
    for number, layer in enumerate(form.hidden):
        y = functional.linear(seen[-1], *parameters[2 * number : 2 * number + 2])
        if number == 0 and form.skip:
            skipped = y[:, -1] if form.skip == 1 else y[:, -2] - y[:, -1]
        seen.append(activated(layer, y[:, : layer.active], form.highest))
    last = torch.cat(seen[1:], dim=1) if form.all_activations else seen[-1]
    return functional.linear(last, *parameters[-2:])[:, 0] + skipped


def activated(layer: Hidden, y: Tensor, highest: float) -> Tensor:
    if layer.kind == Kind.BOTH:
        return torch.cat([y.square() * layer.square, y], dim=1).clamp(0, highest)
    clipped = y.clamp(0, highest)
    return clipped.square() if layer.kind == Kind.SCRELU else clipped


def results(
    how: object, form: StackForm, borders: tuple[int, ...], made: dict[str, Tensor], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The output, then the gradients."""
    leaves = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in made.items()}
    out = how(form, borders, leaves)  # type: ignore[operator]
    out.backward(torch.linspace(-1, 1, out.numel()).to(dtype))
    return {"out": out.detach()} | {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("case", BORDERS)
@pytest.mark.parametrize(("name", "inputs"), [*((name, 300) for name in FORMS), ("all activations", 5)])
def test_forward_and_backward(name: str, case: str, inputs: int) -> None:
    form, borders = FORMS[name], BORDERS[case]
    made = tensors(form, borders, inputs)
    assert serves(made["x"])
    assert form.serves
    found = results(by_kernels, form, borders, made, torch.float32)
    wanted = results(by_torch, form, borders, made, torch.float64)
    for key, each in found.items():
        torch.testing.assert_close(each.double(), wanted[key], rtol=1e-4, atol=1e-4, msg=partial("{}: {}".format, key))


def test_the_same_bits_for_other_blocks_and_orders(cpu: CpuLauncher) -> None:
    form, borders = FORMS["all activations"], BORDERS["several"]
    made = tensors(form, borders, 300)

    def bits() -> list[bytes]:
        return [tensor.numpy().tobytes() for tensor in results(by_kernels, form, borders, made, torch.float32).values()]

    wanted = bits()
    for cpu.threads, cpu.backward in ((None, False), (1, False), (2, True), (1024, True)):
        assert bits() == wanted


@pytest.mark.parametrize("name", FORMS)
def test_launches_grow_neither_with_buckets_nor_with_layers(name: str, cpu: CpuLauncher) -> None:
    for case in ("all in the first", "several"):
        cpu.launched.clear()
        results(by_kernels, FORMS[name], BORDERS[case], tensors(FORMS[name], BORDERS[case], 300), torch.float32)
        assert cpu.launched == [
            "weights_in_effect", "stacked_products", "stacks_forward",
            "stacks_backward", "stacked_inputs", "stacked_pieces", "stacked_sums", "shared_sums",
        ]  # fmt: skip


@pytest.mark.usefixtures("cpu")
def test_wide_and_deep_stacks_are_left_to_libraries() -> None:
    wide, narrow = Hidden(65, 65, Kind.CRELU), Hidden(8, 8, Kind.CRELU)
    assert not StackForm((wide,)).serves
    assert StackForm((narrow,) * 4).serves
    assert not StackForm((narrow,) * 5).serves
    assert not serves(torch.zeros(2, 2, dtype=torch.float64))

"""Layer stacks of any form, against torch in double precision."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from pool.tasks.chess.cuda.layer_stacks import layer_stacks, supports
from pool.tasks.chess.cuda.stack_spec import CudaStackSpec, HiddenLayer, LayerActivation
from pool.tasks.chess.training.fake_quantization import fake_floor
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

BORDERS = {
    "all in the first": (0, 70, 70, 70, 70),
    "several": (0, 1, 66, 66, 200),  # one sample, more than one piece, none, more than two
    "all in the last": (0, 0, 0, 0, 130),
    "no samples": (0, 0, 0, 0, 0),
}
FORMS = {
    "Stockfish's": CudaStackSpec(
        (HiddenLayer(16, 15, LayerActivation.BOTH, 0.99), HiddenLayer(32, 32, LayerActivation.CRELU)), 0.98, skip=1
    ),
    "all activations": CudaStackSpec(
        (HiddenLayer(32, 30, LayerActivation.BOTH, 1.1), HiddenLayer(9, 7, LayerActivation.BOTH)),
        1.0,
        all_activations=True,
        skip=2,
    ),
    "three hidden": CudaStackSpec(
        (
            HiddenLayer(5, 5, LayerActivation.SCRELU),
            HiddenLayer(33, 33, LayerActivation.CRELU),
            HiddenLayer(3, 3, LayerActivation.SCRELU),
        )
    ),
    "none hidden": CudaStackSpec(()),
}
CUT = {
    "SFNNv5's": CudaStackSpec(
        (HiddenLayer(16, 15, LayerActivation.BOTH), HiddenLayer(32, 32, LayerActivation.CRELU)), 1.0, skip=1, one=127
    ),
    "SFNNv16's": CudaStackSpec(
        (HiddenLayer(32, 30, LayerActivation.BOTH, 0.5), HiddenLayer(9, 7, LayerActivation.BOTH)),
        127 / 128,
        all_activations=True,
        skip=2,
        one=128,
    ),
    "squares of what is cut": CudaStackSpec(
        (HiddenLayer(5, 5, LayerActivation.SCRELU), HiddenLayer(33, 33, LayerActivation.CRELU)), one=64
    ),
}


def tensors(form: CudaStackSpec, borders: tuple[int, ...], inputs: int) -> dict[str, Tensor]:
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


def by_kernels(form: CudaStackSpec, borders: tuple[int, ...], given: dict[str, Tensor]) -> Tensor:
    x, extra, *parameters, weight, bias = given.values()
    return layer_stacks(form, x, extra, borders, parameters, (weight, bias))


def by_torch(form: CudaStackSpec, borders: tuple[int, ...], given: dict[str, Tensor]) -> Tensor:
    x, extra, *parameters, weight, bias = given.values()
    parameters = [parameters[0] + weight, parameters[1] + bias, *parameters[2:]]
    out = [
        one_stack(form, x[begin:end], [parameter[bucket] for parameter in parameters])
        for bucket, (begin, end) in enumerate(pairwise(borders))
    ]
    return torch.cat(out) + extra


def one_stack(form: CudaStackSpec, x: Tensor, parameters: list[Tensor]) -> Tensor:
    seen, skipped = [x], torch.zeros(())
    for number, layer in enumerate(form.hidden):
        y = functional.linear(seen[-1], *parameters[2 * number : 2 * number + 2])
        if number == 0 and form.skip:
            skipped = y[:, -1] if form.skip == 1 else y[:, -2] - y[:, -1]
        seen.append(activated(layer, y[:, : layer.active], form))
    last = torch.cat(seen[1:], dim=1) if form.all_activations else seen[-1]
    return functional.linear(last, *parameters[-2:])[:, 0] + skipped


def activated(layer: HiddenLayer, y: Tensor, form: CudaStackSpec) -> Tensor:
    if layer.kind == LayerActivation.BOTH:
        y = torch.cat([y.square() * layer.square, y], dim=1)
    if form.one:
        y = fake_floor(y, form.one)
    clipped = y.clamp(0, form.highest)
    return clipped.square() if layer.kind == LayerActivation.SCRELU else clipped


def results(
    how: object, form: CudaStackSpec, borders: tuple[int, ...], made: dict[str, Tensor], dtype: torch.dtype
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
    assert supports(made["x"])
    assert form.supports
    found = results(by_kernels, form, borders, made, torch.float32)
    wanted = results(by_torch, form, borders, made, torch.float64)
    for key, each in found.items():
        torch.testing.assert_close(each.double(), wanted[key], rtol=1e-4, atol=1e-4, msg=partial("{}: {}".format, key))


def on_grid(form: CudaStackSpec, made: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same, rounded: a hidden layer's outputs and their squares are exact on a step, or away from one by more than
    float32 or the double's 3e-5 of a step decide."""
    rounded = {name: (tensor * 16).round() / 16 for name, tensor in made.items()}
    rounded["x"] = (made["x"] * 8).round() / 8
    for name in (name for name in made if name.startswith("bias") and name != "bias 0"):  # between steps
        rounded[name] = ((made[name] * 16 * form.one).round() + 0.5) / (16 * form.one)
    return rounded


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("case", BORDERS)
@pytest.mark.parametrize("name", CUT)
def test_activations_that_are_cut(name: str, case: str) -> None:
    """Gradients pass, at the ends of the range too, where much of what is cut lies."""
    form, borders = CUT[name], BORDERS[case]
    made = on_grid(form, tensors(form, borders, 300))
    found = results(by_kernels, form, borders, made, torch.float32)
    wanted = results(by_torch, form, borders, made, torch.float64)
    for key, each in found.items():
        torch.testing.assert_close(each.double(), wanted[key], rtol=1e-4, atol=1e-4, msg=partial("{}: {}".format, key))


ENDS = [-1.0, -1 / 128, -1e-6, -1e-7, -0.0, 0.0, 1e-6, 1 / 128 - 1e-7, 1 / 127, 1 / 127 - 1e-6, 126 / 127, 127 / 128]
ENDS += [127 / 128 + 1e-4, 1 - 1e-6, 1.0, 1 + 1e-6, 128 / 127 - 1e-6, 128 / 127, -0.99, -1 / 127, -11.0, 12.0, -1e-20]
OUTPUTS = st.one_of(st.sampled_from(ENDS), st.floats(-20, 20, width=32))


@pytest.mark.usefixtures("cpu")
@given(
    st.lists(OUTPUTS, min_size=8, max_size=8),
    st.sampled_from([(127.0, 1.0), (128.0, 127 / 128)]),
    st.sampled_from(LayerActivation),
)
def test_any_output_is_cut_as_by_torch(outputs: list[float], ends: tuple[float, float], kind: LayerActivation) -> None:
    """To the bit: activations are the gradient of the last weight, and the gradients of outputs that of the bias."""
    one, highest = ends
    form = CudaStackSpec((HiddenLayer(8, 7, kind, 0.97),), highest, one=one)
    made = tensors(form, (0, 1), 4)
    made |= {"x": torch.zeros(1, 4), "bias 0": torch.tensor([outputs]), "shared bias": torch.zeros(8)}
    found, wanted = (results(how, form, (0, 1), made, torch.float32) for how in (by_kernels, by_torch))
    for key in ("weight 1", "bias 0"):
        torch.testing.assert_close(found[key], wanted[key], rtol=0, atol=0, msg=partial("{}: {}".format, key))


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("kind", LayerActivation)
def test_what_is_none_is_cut_to_none(kind: LayerActivation) -> None:
    form = CudaStackSpec((HiddenLayer(2, 2, kind),), one=127)
    made = tensors(form, (0, 1), 4) | {"bias 0": torch.tensor([[torch.nan, 0.5]])}
    found = results(by_kernels, form, (0, 1), made, torch.float32)
    assert found["out"].isnan().all()
    assert found["weight 1"].isnan().flatten().tolist() == [True, False] * (2 if kind == LayerActivation.BOTH else 1)


@pytest.mark.parametrize("form", [FORMS["all activations"], CUT["SFNNv16's"]])
def test_the_same_bits_for_other_blocks_and_orders(form: CudaStackSpec, cpu: CpuLauncher) -> None:
    borders = BORDERS["several"]
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
    wide, narrow = HiddenLayer(65, 65, LayerActivation.CRELU), HiddenLayer(8, 8, LayerActivation.CRELU)
    assert not CudaStackSpec((wide,)).supports
    assert CudaStackSpec((narrow,) * 4).supports
    assert not CudaStackSpec((narrow,) * 5).supports
    assert not supports(torch.zeros(2, 2, dtype=torch.float64))

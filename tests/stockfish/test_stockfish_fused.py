"""The native operation behind the first layer, against the plain torch path in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from pool import _native
from pool.tasks.chess.training.loss_config import LossConfig
from pool.tasks.stockfish import create_task, fused
from pool.tasks.stockfish.config import ModelConfig
from pool.tasks.stockfish.model import StockfishModel
from pool.tasks.stockfish.quantized.versions import FC_1_OUT
from tests.stockfish.support import V5, make_batch, slow_position

SHAPES = [(V5.fc_0_out,), (FC_1_OUT, V5.fc_1_in), (FC_1_OUT,), (FC_1_OUT,), ()]


@pytest.fixture(autouse=True)
def level_as_before() -> Iterator[None]:
    """Tests may choose the kernels' level."""
    before = _native.simd_level()
    yield
    _native.set_simd_level(before)


Kernels = Literal["fused", "torch"]


def model_of(l1: int, kernels: Kernels = "fused", seed: int = 0) -> StockfishModel:
    """Weights at which every clip has samples on both sides."""
    torch.manual_seed(seed)
    model = StockfishModel(ModelConfig(l1=l1, kernels=kernels))
    with torch.no_grad():
        for parameter in model.stacks.parameters():
            parameter.copy_(torch.randn_like(parameter) * parameter.shape[-1] ** -0.5 * 2)
    return model


def inputs_of(borders: tuple[int, ...], l1: int) -> Tensor:
    """Both sides of 0 and 1, and both exactly."""
    accumulated = torch.randn(2 * borders[-1], l1, generator=torch.Generator().manual_seed(l1)) + 0.5
    accumulated[::3, ::5] = 0.0
    accumulated[1::3, 1::5] = 1.0
    return accumulated


def gradients(model: StockfishModel, accumulated: Tensor, borders: tuple[int, ...], native: bool) -> dict[str, Tensor]:
    """Output, and gradients of everything, for a fixed loss of the output."""
    accumulated = accumulated.clone().requires_grad_()
    model.zero_grad()
    if native:
        out = fused.positional(accumulated, model.stacks.parameters_in_effect(), borders)
    else:
        out = model._positional(accumulated, [last - first for first, last in pairwise(borders)])
    weight = torch.linspace(-1, 1, borders[-1], dtype=torch.float64).to(out.dtype)
    torch.autograd.backward([out], [weight])
    assert accumulated.grad is not None
    found = {"out": out.detach(), "accumulated": accumulated.grad}
    for name, parameter in model.stacks.named_parameters():
        assert parameter.grad is not None
        found[name] = parameter.grad.clone()
    return found


BORDERS = [
    (0, 1, 1, 1, 1, 1, 1, 1, 1),
    (0, 0, 0, 5, 38, 38, 70, 103, 120),
    (0, 31, 63, 96, 160, 1190, 1190, 1250, 1251),
    (0, 0, 0, 0, 0, 0, 0, 0, 0),
]


@pytest.mark.parametrize("level", _native.simd_levels())
@pytest.mark.parametrize("l1", [8, 24, 64, 256])
@pytest.mark.parametrize("borders", BORDERS)
def test_outputs_and_gradients_are_those_of_the_plain_path_in_double(
    level: str, l1: int, borders: tuple[int, ...]
) -> None:
    _native.set_simd_level(level)
    model, accumulated = model_of(l1), inputs_of(borders, l1)
    found = gradients(model, accumulated, borders, native=True)
    wanted = gradients(model.double(), accumulated.double(), borders, native=False)
    for name, tensor in wanted.items():
        scale = tensor.abs().max().item() if tensor.numel() else 0.0
        torch.testing.assert_close(found[name].double(), tensor, rtol=1e-5, atol=2e-6 * (1 + scale), msg=name)


@pytest.mark.parametrize("l1", [8, 64, 256])
def test_bits_do_not_depend_on_threads_or_level(l1: int) -> None:
    borders = (0, 100, 100, 1500, 4700, 7000, 7001, 9000, 9600)
    model, accumulated = model_of(l1), inputs_of(borders, l1)
    before = torch.get_num_threads()
    results = []
    try:
        for level in _native.simd_levels():
            _native.set_simd_level(level)
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                results.append(gradients(model, accumulated, borders, native=True))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for name, tensor in results[0].items():
            if not name.startswith("shared"):  # summed by torch from the buckets' own
                assert torch.equal(result[name], tensor), name


@pytest.mark.parametrize("level", _native.simd_levels())
def test_gradients_agree_with_finite_differences(level: str) -> None:
    """Independent of autograd: the directional derivative of the outputs' sum, away from the clips."""
    _native.set_simd_level(level)
    torch.manual_seed(3)
    borders = (0, 2, 4, 6, 8, 10, 12, 14, 16)
    model = model_of(16, seed=3)
    parameters = [parameter.detach().requires_grad_() for parameter in model.stacks.parameters_in_effect()]
    accumulated = (torch.rand(32, 16) * 0.6 + 0.2).requires_grad_()
    given = [accumulated, *parameters]
    directions = [torch.randn_like(tensor) for tensor in given]
    out = fused.positional(accumulated, parameters, borders)
    found = torch.autograd.grad([out], given, [torch.ones_like(out)])
    slope = sum((gradient * direction).sum().item() for gradient, direction in zip(found, directions, strict=True))

    def total(step: float) -> float:
        moved = [(tensor + step * direction).detach() for tensor, direction in zip(given, directions, strict=True)]
        return fused.positional(moved[0], moved[1:], borders).double().sum().item()

    step = 2e-4
    assert (total(step) - total(-step)) / (2 * step) == pytest.approx(slope, rel=0.02, abs=0.05)


def test_what_is_not_a_number_comes_out_as_such() -> None:
    borders = (0, 1, 2, 3, 4, 5, 6, 7, 8)
    model, accumulated = model_of(16), inputs_of(borders, 16)
    accumulated[3, 5] = torch.nan
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        out = fused.positional(accumulated, model.stacks.parameters_in_effect(), borders)
        assert out.isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize(("kernels", "dtype"), [("torch", torch.float32), ("fused", torch.float64)])
def test_the_plain_path_serves_where_it_is_asked_for_and_other_dtypes(
    kernels: Kernels, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = make_batch([slow_position("4k3/8/8/8/8/8/8/3QK3 w - - 0 1")])
    model = model_of(16, kernels).to(dtype)
    wanted = model_of(16)(batch).item()
    monkeypatch.setattr(fused, "positional", None)
    assert model(batch).item() == pytest.approx(wanted, rel=1e-5)


def test_both_kernels_train_the_same_net_up_to_rounding() -> None:
    fens = ["4k3/8/8/8/8/8/8/3QK3 w - - 0 1", "4k3/pppp4/8/8/8/8/PPPP4/R3K3 b - - 0 1"]
    batch, _ = make_batch([slow_position(fen) for fen in fens], [500, -300], [1, -1])
    weights = []
    both: tuple[Kernels, ...] = ("fused", "torch")
    for kernels in both:
        task = create_task(ModelConfig(l1=16, kernels=kernels), LossConfig())
        model = model_of(16, kernels)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            out = model(batch)
            ((out - batch.dense["score"] / 600) ** 2).sum().backward()
            optimizer.step()
            task.after_step(model)
        weights.append(model.state_dict())
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-4, atol=1e-5, msg=name)


def native_arguments() -> dict[str, Any]:
    return {
        "accumulated": torch.zeros(6, 16),
        "parameters": [torch.zeros(2, 16, 16), *(torch.zeros(2, *shape) for shape in SHAPES)],
        "borders": [0, 1, 3],
        "first": torch.zeros(3, 16),
        "second": torch.zeros(3, 32),
        "out": torch.zeros(3),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"borders": [0, 1]}, r"parameters\[0\] has 2 in dimension 0, must have 1"),
        ({"borders": []}, "borders is empty"),
        ({"borders": [0, 2, 1]}, "borders must rise from 0 to half of the 6 rows"),
        ({"borders": [0, 1, 4]}, "borders must rise from 0 to half of the 6 rows"),
        ({"out": torch.zeros(4)}, "out has 4 numbers, must have 3"),
        ({"first": torch.zeros(3, 15)}, "first has 15 in dimension 1, must have 16"),
        ({"accumulated": torch.zeros(6, 16, dtype=torch.float64)}, "accumulated must be float32"),
        ({"accumulated": torch.zeros(5, 16)}, "first has 3 in dimension 0, must have 2"),
        ({"parameters": []}, "parameters has 0 arrays, must have 6"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _native.stacks_forward(**{**native_arguments(), **change})

"""The native operation behind the first layer, against the models' plain torch paths in double precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.tasks.chess import fused_layers
from pool.tasks.chess.perspective.config import ModelConfig as LadderConfig
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.shape import make_shape
from pool.tasks.chess.quantization import Rounding
from pool.tasks.chess.stockfish import create_task
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, VERSIONS
from pool.tasks.chess.training.config import LossConfig
from tests.pool.kernels.sparse_inputs import input_of
from tests.pool.tasks.chess.perspective.support import RUNGS
from tests.pool.tasks.chess.stockfish.support import make_batch, slow_position

Model = StockfishModel | PerspectiveModel
Kernels = Literal["fused", "torch"]


@pytest.fixture(autouse=True)
def level_as_before() -> Iterator[None]:
    """Tests may choose the kernels' level."""
    before = _native.simd_level()
    yield
    _native.set_simd_level(before)


LADDER: dict[str, dict[str, Any]] = {
    **RUNGS,
    "layers, screlu": {**RUNGS["layers"], "hidden_activation": "screlu"},
    "hidden behind crelu": {**RUNGS["buckets"], "hidden": (10, 33, 5), "hidden_activation": "screlu"},
    "wide pairs": {**RUNGS["simple"], "activation": "pairwise", "hidden": (16, 32)},
    "dual": {**RUNGS["layers"], "hidden_activation": ("dual", "crelu")},
    "dual twice, and a skip": {
        **RUNGS["layers"],
        "hidden": (16, 8, 4),
        "hidden_activation": ("dual", "screlu", "dual"),
        "skip": True,
    },
    "shared between buckets": {**RUNGS["layers"], "skip": True, "factorised_layers": (1, 2, 3)},
    "one hidden behind screlu": {**RUNGS["simple"], "hidden": (8,), "hidden_activation": "crelu"},
}
CUT = ["SFNNv5, cut", "SFNNv16, cut", "layers, cut", "dual, cut"]  # as integer activations are
FORMS = [*VERSIONS, *LADDER]


def stockfish(l1: int, kernels: Kernels = "fused", version: str = "SFNNv5", **more: Any) -> StockfishModel:
    torch.manual_seed(0)
    model = StockfishModel(ModelConfig(version=version, l1=l1, kernels=kernels, **more))  # type: ignore[arg-type]
    scale_up(model)
    return model


class Given(nn.Module):
    """In the place of a sparse layer: its sums."""

    def __init__(self, sums: Tensor) -> None:
        super().__init__()
        self.sums = sums

    def forward(self, _: SparseInput) -> Tensor:
        return self.sums


def outputs(model: Model, accumulated: Tensor, borders: Sequence[int]) -> Tensor:
    """What the model makes of these sums of its first layer; the PSQT part is zero."""
    given: Any = Given(accumulated)
    if isinstance(model, StockfishModel):
        nothing: Any = Given(torch.zeros(len(accumulated), NUM_BUCKETS, dtype=accumulated.dtype))
        model.transformer, model.psqt = given, nothing
    else:
        model.l0 = given
    out: Tensor = model(TensorBatch(0, {"features": input_of([], 1)}, {}, tuple(borders)))
    return out


def model_of(form: str, width: int) -> Model:
    name = form.removesuffix(", cut")
    more: Any = {"fake_quantization": ("activations",)} if form in CUT else {}
    model: Model
    if name in VERSIONS:
        model = stockfish(width, version=name, **more)
    else:
        torch.manual_seed(0)
        shape = make_shape(LadderConfig(**{**LADDER[name], "width": width}))
        model = PerspectiveModel(shape, rules={"l0w": Rounding(255, np.int16)}, **more)
        scale_up(model)
    if form in CUT:
        of_few_bits(model)
    return model


@torch.no_grad()
def of_few_bits(model: Model) -> None:
    """What is cut lies far from the steps, or on them, so that float32 and float64 cut alike."""
    for parameter in small_parameters(model).values():
        parameter.copy_((parameter * 16).round() / 16)


def small_parameters(model: Model) -> dict[str, Tensor]:
    return {name: each for name, each in model.named_parameters() if not name.startswith(("transformer", "psqt", "l0"))}


@torch.no_grad()
def scale_up(model: Model) -> None:
    """Weights at which every clip has samples on both sides."""
    for parameter in small_parameters(model).values():
        parameter.copy_(torch.randn_like(parameter) * parameter.shape[-1] ** -0.5 * 2)


def inputs_of(borders: Sequence[int], l1: int) -> Tensor:
    """Both sides of 0 and 1, and both exactly; the end of the range of SFNNv16, too."""
    accumulated = torch.randn(2 * borders[-1], l1, generator=torch.Generator().manual_seed(l1)) + 0.5
    accumulated[::3, ::5] = 0.0
    accumulated[1::3, 1::5] = 1.0
    accumulated[2::3, 2::5] = 255 / 256
    return accumulated


def gradients(model: Model, accumulated: Tensor, borders: Sequence[int]) -> dict[str, Tensor]:
    """Output, and gradients of everything, for a fixed loss of the output."""
    accumulated = accumulated.clone().requires_grad_()
    model.zero_grad()
    out = outputs(model, accumulated, borders)
    weight = torch.linspace(0.1, 1, borders[-1], dtype=torch.float64).to(out.dtype)
    torch.autograd.backward([out], [weight])
    assert accumulated.grad is not None
    found = {"out": out.detach(), "accumulated": accumulated.grad}
    for name, parameter in small_parameters(model).items():
        assert parameter.grad is not None
        found[name] = parameter.grad.clone()
    return found


def buckets(model: Model, borders: tuple[int, ...]) -> tuple[int, ...]:
    """The borders for a model of one bucket or of eight."""
    single = isinstance(model, PerspectiveModel) and model.shape.buckets == 1
    return (0, borders[-1]) if single else borders


BORDERS = [
    (0, 1, 1, 1, 1, 1, 1, 1, 1),
    (0, 0, 0, 5, 38, 38, 70, 103, 120),
    (0, 31, 63, 96, 160, 1190, 1190, 1250, 1251),
    (0, 0, 0, 0, 0, 0, 0, 0, 0),
]


@pytest.mark.parametrize("width", [8, 24, 48])
@pytest.mark.parametrize("form", [*FORMS, *CUT])
def test_outputs_and_gradients_are_those_of_the_plain_path_in_double(form: str, width: int) -> None:
    model = model_of(form, width)
    for borders in BORDERS:
        if (
            form in CUT and borders[-1] > 120
        ):  # one of so many numbers lies so near a step that float32 cuts it otherwise
            continue
        at = buckets(model, borders)
        accumulated = inputs_of(at, width)
        if form in CUT:
            accumulated = (accumulated * 64).round() / 64
        found = {}
        for level in _native.simd_levels():
            _native.set_simd_level(level)
            found[level] = gradients(model, accumulated, at)
        wanted = gradients(model.double(), accumulated.double(), at)
        model.float()
        for level, tensors in found.items():
            for name, tensor in wanted.items():
                scale = tensor.abs().max().item() if tensor.numel() else 0.0
                message = f"{name}, {level}, {at}"
                torch.testing.assert_close(
                    tensors[name].double(), tensor, rtol=1e-5, atol=4e-6 * (1 + scale), msg=message
                )


@pytest.mark.parametrize("form", ["simple", "wide pairs"])
def test_wide_networks_are_computed_in_shorter_blocks(form: str) -> None:
    """As wide as Stockfish's widest, and twice as wide without products."""
    model = model_of(form, 3072)
    borders = buckets(model, (0, 0, 33, 33, 50, 50, 50, 50, 51))
    accumulated = inputs_of(borders, 3072)
    found = gradients(model, accumulated, borders)
    for name, tensor in gradients(model.double(), accumulated.double(), borders).items():
        scale = tensor.abs().max().item()
        torch.testing.assert_close(found[name].double(), tensor, rtol=1e-5, atol=4e-6 * (1 + scale), msg=name)


@pytest.mark.parametrize("form", ["SFNNv5", "SFNNv16", "factorised", "layers", "SFNNv16, cut"])
@pytest.mark.parametrize("width", [8, 64, 256])
def test_bits_do_not_depend_on_threads_or_level(form: str, width: int) -> None:
    model = model_of(form, width)
    borders = buckets(model, (0, 100, 100, 1500, 4700, 7000, 7001, 9000, 9600))
    accumulated = inputs_of(borders, width)
    before = torch.get_num_threads()
    results = []
    try:
        for level in _native.simd_levels():
            _native.set_simd_level(level)
            for threads in (1, 3):
                torch.set_num_threads(threads)
                results.append(gradients(model, accumulated, borders))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for name, tensor in results[0].items():
            if "shared" not in name:  # summed by torch from the buckets' own
                assert torch.equal(result[name], tensor), name


@pytest.mark.parametrize("level", _native.simd_levels())
def test_gradients_agree_with_finite_differences(level: str) -> None:
    """Independent of autograd: the directional derivative of the outputs' sum, away from the clips."""
    _native.set_simd_level(level)
    model = stockfish(16)
    torch.manual_seed(3)
    borders = (0, 2, 4, 6, 8, 10, 12, 14, 16)
    parameters = [parameter.detach().requires_grad_() for parameter in model.stacks.effective_parameters()]
    accumulated = (torch.rand(32, 16) * 0.6 + 0.2).requires_grad_()
    given = [accumulated, *parameters]
    directions = [torch.randn_like(tensor) for tensor in given]
    out = fused_layers.outputs(model.stacks.spec, accumulated, parameters, borders)
    found = torch.autograd.grad([out], given, [torch.ones_like(out)])
    slope = sum((gradient * direction).sum().item() for gradient, direction in zip(found, directions, strict=True))

    def total(step: float) -> float:
        moved = [(tensor + step * direction).detach() for tensor, direction in zip(given, directions, strict=True)]
        return fused_layers.outputs(model.stacks.spec, moved[0], moved[1:], borders).double().sum().item()

    step = 2e-4
    assert (total(step) - total(-step)) / (2 * step) == pytest.approx(slope, rel=0.02, abs=0.05)


@pytest.mark.parametrize("form", ["SFNNv5", "SFNNv16", "factorised", "layers", "SFNNv16, cut"])
def test_what_is_not_a_number_comes_out_as_such(form: str) -> None:
    borders = (0, 1, 2, 3, 4, 5, 6, 7, 8)
    model, accumulated = model_of(form, 16), inputs_of(borders, 16)
    accumulated[3, 5] = torch.nan
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        out = outputs(model, accumulated, borders)
        assert out.isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize(("kernels", "dtype"), [("torch", torch.float32), ("fused", torch.float64)])
def test_the_plain_path_serves_where_it_is_asked_for_and_other_dtypes(
    kernels: Kernels, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = make_batch([slow_position("4k3/8/8/8/8/8/8/3QK3 w - - 0 1")])
    model = stockfish(16, kernels).to(dtype)
    wanted = stockfish(16)(batch).item()
    monkeypatch.setattr(fused_layers, "outputs", None)
    assert model(batch).item() == pytest.approx(wanted, rel=1e-5)
    ladder = PerspectiveModel(make_shape(LadderConfig(**RUNGS["buckets"])), kernels).to(dtype)
    outputs(ladder, torch.rand(2, 32, dtype=dtype), (0, 1, 1, 1, 1, 1, 1, 1, 1))


def test_both_kernels_train_the_same_net_up_to_rounding() -> None:
    fens = ["4k3/8/8/8/8/8/8/3QK3 w - - 0 1", "4k3/pppp4/8/8/8/8/PPPP4/R3K3 b - - 0 1"]
    batch, _ = make_batch([slow_position(fen) for fen in fens], [500, -300], [1, -1])
    weights = []
    both: tuple[Kernels, ...] = ("fused", "torch")
    for kernels in both:
        task = create_task(ModelConfig(l1=16, kernels=kernels), LossConfig())
        model = stockfish(16, kernels)
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


def native_form(**change: Any) -> _native.StackForm:
    given: dict[str, Any] = {
        "first": "pairwise",
        "largest_sum": 1.0,
        "hidden": [(16, 15, "both", 127 / 128), (32, 32, "crelu", 1.0)],
        "largest_input": 1.0,
        "all_activations": False,
        "skips": 1,
    }
    return _native.StackForm(**{**given, **change})


def native_arguments() -> dict[str, Any]:
    shapes = [(16, 16), (16,), (32, 30), (32,), (32,), ()]
    return {
        "form": native_form(),
        "accumulated": torch.zeros(6, 16),
        "parameters": [torch.zeros(2, *shape) for shape in shapes],
        "borders": [0, 1, 3],
        "memory": torch.zeros(3, 48),
        "out": torch.zeros(3),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"borders": [0, 1]}, r"parameters\[0\] has 2 in dimension 0, must have 1"),
        ({"borders": []}, "borders is empty"),
        ({"borders": [0, 2, 1]}, "borders must rise from 0 to the 3 samples"),
        ({"borders": [0, 1, 4]}, "borders must rise from 0 to the 3 samples"),
        ({"accumulated": torch.zeros(6, 17)}, "17 columns, but products of pairs need an even number"),
        ({"memory": torch.zeros(3, 47)}, "memory has 47 columns, must have 48"),
        ({"parameters": []}, "parameters has 0 arrays, must have 6"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    _native.stacks_forward(**native_arguments())
    with pytest.raises(ValueError, match=message):
        _native.stacks_forward(**{**native_arguments(), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": "relu"}, "first is 'relu', must be pairwise, crelu or screlu"),
        ({"hidden": [(16, 16, "relu", 1.0)]}, "a hidden layer has 'relu', must be both, crelu or screlu"),
        ({"hidden": [(16, 17, "crelu", 1.0)]}, "a hidden layer has 16 outputs, 17 of them active"),
        ({"hidden": [(1, 1, "crelu", 1.0)] * 9}, "hidden has 9 layers, must have at most 8"),
        ({"largest_sum": 0.0}, "largest_sum and largest_input must be above 0"),
        ({"hidden": []}, "skips is 1, must be 0, or 1 or 2 outputs of the first hidden layer"),
        ({"skips": 3}, "skips is 3, must be 0"),
        ({"first": "crelu", "product_one": 127.0}, "product_one needs products of pairs"),
        ({"hidden_one": -1.0}, "product_one and hidden_one must not be negative"),
        ({"hidden": [(16, 16, "screlu", 1.0)], "hidden_one": 127.0}, "squares of clamped outputs are not cut"),
    ],
)
def test_forms_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native_form(**change)

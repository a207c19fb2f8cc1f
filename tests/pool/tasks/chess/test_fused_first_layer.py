"""The first layer and the dense layer behind it in one pass along the plan, against plain torch in double precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess import fused_layers
from pool.tasks.chess.perspective.config import LossConfig
from pool.tasks.chess.perspective.config import ModelConfig as LadderConfig
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.shape import make_shape
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from tests.pool.kernels.sparse_inputs import input_of
from tests.pool.tasks.chess.test_fused_stacks import LADDER, Model, of_few_bits, scale_up

FORMS = [
    "SFNNv5",
    "as SFNNv16",
    "as SFNNv16, cut",
    "layers",
    "layers, screlu",
    "dense behind crelu",
    "dense behind screlu",
]
DENSE: dict[str, dict[str, Any]] = {
    **LADDER,
    "dense behind crelu": {**LADDER["factorised"], "activation": "crelu", "hidden": (32, 5)},
    "dense behind screlu": {**LADDER["simple"], "hidden": (16,)},
}
BORDERS = (0, 0, 70, 71, 400, 700, 700, 1100, 1300)
SAMPLES = BORDERS[-1]


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    """Tests may choose the kernels' level and the number of threads."""
    level, threads = _native.simd_level(), torch.get_num_threads()
    yield
    _native.set_simd_level(level)
    torch.set_num_threads(threads)


def bags(num_features: int) -> SparseInput:
    """Three kinds of them, which make two tiles; those of a kind share rows, some of which most of them have. Some have
    a row twice."""
    rng = np.random.default_rng(5)
    found = []
    for bag in range(2 * SAMPLES):
        kind = num_features // 4 * (bag % 3)
        often = [kind + i for i in range(14) if rng.random() < 0.6]
        seldom = (kind + 14 + rng.integers(0, 180, 4)).tolist()
        found.append([*often, *seldom, *often[: bag % 101 == 0]])
    return input_of(found, num_features)


@pytest.fixture(scope="module")
def inputs() -> dict[int, SparseInput]:
    """By number of features."""
    return {}


def model_of(form: str, width: int) -> Model:
    torch.manual_seed(1)
    model: Model
    if "SFNN" in form:
        version: Literal["SFNNv5", "SFNNv16"] = "SFNNv5" if form == "SFNNv5" else "SFNNv16"
        cuts: Any = {"fake_quantization": ("activations",)} if form.endswith("cut") else {}
        model = StockfishModel(ModelConfig(version=version, l1=width, kernels="fused_first_layer", **cuts))
        if form != version:  # small tables
            model.transformer = SparseLinear(768, width)
            model.psqt = SparseLinear(768, 8, bias=False)
        layer = model.transformer
    else:
        model = PerspectiveModel(make_shape(LadderConfig(**{**DENSE[form], "width": width})), "fused_first_layer")
        layer = model.l0
    scale_up(model)
    if form.endswith("cut"):
        of_few_bits(model)
    with torch.no_grad():
        # of few bits: sums are exact, and clamped alike by all that compute them
        layer.weight.copy_((torch.randn(layer.weight.shape) * 0.2 * 512).round() / 512)
        assert layer.bias is not None
        layer.bias.fill_(0.5)
    return model


def batch_of(model: Model, inputs: dict[int, SparseInput]) -> TensorBatch:
    layer = model.transformer if isinstance(model, StockfishModel) else model.l0
    single = isinstance(model, PerspectiveModel) and model.shape.buckets == 1
    if layer.num_features not in inputs:
        inputs[layer.num_features] = bags(layer.num_features)
    sparse = replace(inputs[layer.num_features])
    return TensorBatch(0, {"features": sparse}, {}, (0, SAMPLES) if single else BORDERS)


def backward(out: Tensor) -> None:
    """Of a fixed loss of the output."""
    torch.autograd.backward([out], [torch.linspace(0.1, 1, SAMPLES, dtype=torch.float64).to(out.dtype)])


def results(model: Model, batch: TensorBatch) -> dict[str, Tensor]:
    """Output and gradients of everything."""
    model.zero_grad()
    out = model(batch)
    backward(out)
    found = {"out": out.detach()}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        found[name] = parameter.grad.clone()
    return found


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each use of the pass along the plan."""
    found: list[str] = []
    inner = fused_layers.first_layer_outputs

    def counted(*arguments: Any) -> Tensor:
        found.append("used")
        return inner(*arguments)

    monkeypatch.setattr(fused_layers, "first_layer_outputs", counted)
    return found


@pytest.mark.parametrize(
    ("form", "width"), [*((form, width) for form in FORMS for width in (32, 160)), ("layers", 96), ("layers", 288)]
)
def test_outputs_and_gradients_are_those_of_the_plain_path_in_double(
    form: str, width: int, inputs: dict[int, SparseInput], uses: list[str]
) -> None:
    model = model_of(form, width)
    batch = batch_of(model, inputs)
    found = {}
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        found[level] = results(model, batch)
    assert len(uses) == len(found)
    wanted = results(model.double(), batch)
    for level, tensors in found.items():
        for name, tensor in wanted.items():
            scale = tensor.abs().max().item()
            torch.testing.assert_close(
                tensors[name].double(), tensor, rtol=1e-5, atol=4e-6 * (1 + scale), msg=f"{name}, {level}"
            )


@pytest.mark.parametrize("rounding", [{"fake_quantization": ("rows", "dense")}, {"table_dtype": "bfloat16"}], ids=str)
@pytest.mark.parametrize("factorized", [False, True])
def test_rows_that_are_rounded_are_summed_as_such(
    factorized: bool, rounding: dict[str, Any], inputs: dict[int, SparseInput], uses: list[str]
) -> None:
    """Weights and bias lie between the integers; a factoriser counts as part of the rows."""
    models = []
    for kernels in ("fused_first_layer", "fused"):
        form = {**LADDER["layers"], "width": 64, "features": "chess768" + "^" * factorized}
        config = LadderConfig(**form, kernels=kernels, **rounding)
        model = PerspectiveTask(config, LossConfig()).build_model()
        torch.manual_seed(1)
        scale_up(model)
        with torch.no_grad():
            model.l0.weight.normal_(0, 0.2)
        models.append(model)
    batch = batch_of(models[0], inputs)
    found = [results(model, batch) for model in models]
    assert uses == ["used"]
    for name, tensor in found[1].items():
        torch.testing.assert_close(found[0][name], tensor, rtol=1e-4, atol=1e-5 * (1 + tensor.abs().max().item()))
    models[0].l0.__class__ = SparseLinear
    assert (models[0](batch) - found[0]["out"]).abs().max() > 1e-3


class Slot:
    """A gradient slot in which several buckets have rows of the table."""

    def __init__(self, borders: Sequence[int]) -> None:
        self.borders = borders
        self.told: list[int] = []
        self.memory = torch.empty(0)

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        self.memory = torch.zeros_like(weight, requires_grad=False)
        return self.memory, [*self.borders, len(weight)]

    def report_written(self, weight: Tensor, rows: int) -> None:  # noqa: ARG002
        self.told.append(rows)

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:  # noqa: ARG002
        assert finite


@pytest.mark.parametrize("form", ["SFNNv5", "dense behind crelu"])
def test_bits_do_not_depend_on_threads_level_or_buckets(form: str, inputs: dict[int, SparseInput]) -> None:
    model = model_of(form, 288)
    batch = batch_of(model, inputs)
    layer = model.transformer if isinstance(model, StockfishModel) else model.l0
    first = results(model, batch)
    name = next(name for name, parameter in model.named_parameters() if parameter is layer.weight)
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            again = results(model, batch)
            # what several buckets share is summed by torch
            assert [each for each in first if "shared" not in each and not torch.equal(first[each], again[each])] == []
    slot = Slot([layer.num_features // 5, layer.num_features // 2])
    layer.gradient_sink = slot
    model.zero_grad()
    out = model(batch)
    backward(out)
    assert torch.equal(slot.memory, first[name])
    plan = batch.sparse["features"].plan(layer.num_features)
    assert plan is not None
    assert 0 < plan.tiles_until(slot.borders[0]) < plan.num_tiles
    assert slot.told == [*slot.borders, layer.num_features]
    for each, parameter in model.named_parameters():
        if parameter.grad is not None and "shared" not in each:
            assert torch.equal(parameter.grad, first[each]), each


def test_what_is_not_a_number_comes_out_as_such(inputs: dict[int, SparseInput]) -> None:
    model = model_of("layers", 32)
    batch = batch_of(model, inputs)
    assert isinstance(model, PerspectiveModel)
    row = int(batch.sparse["features"].features[0])
    with torch.no_grad():
        model.l0.weight[row, 3] = torch.nan
    plain = PerspectiveModel(model.shape, "torch")
    plain.load_state_dict(model.state_dict())
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        out = model(batch)
        assert out[0].isnan()
        assert torch.equal(out.isnan(), plain(batch).isnan())


@pytest.mark.parametrize(
    ("form", "width", "samples"),
    [
        ("simple", 64, SAMPLES),  # no hidden layer
        ("one hidden behind screlu", 64, SAMPLES),  # of 8 outputs
        ("layers", 48, SAMPLES),
        ("layers", 64, 2),  # bags that share too little
    ],
)
def test_the_two_passes_serve_what_the_one_does_not(
    form: str, width: int, samples: int, inputs: dict[int, SparseInput], uses: list[str]
) -> None:
    model = model_of(form, width)
    assert isinstance(model, PerspectiveModel)
    batch = batch_of(model, inputs)
    if samples != SAMPLES:
        sparse = input_of([[1, 2], [5], [700], [8, 9]], model.l0.num_features)
        batch = TensorBatch(0, {"features": sparse}, {}, (0, *(samples,) * 8))
    both = PerspectiveModel(model.shape, "fused")
    both.load_state_dict(model.state_dict())
    assert torch.equal(model(batch), both(batch))
    assert not uses
    with torch.no_grad():
        assert torch.equal(model(batch), both(batch))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": torch.zeros(99, 32)}, "the table has 99 rows, but the plan was made for 400"),
        (
            {"borders": [0, SAMPLES - 1], "out": torch.zeros(SAMPLES - 1)},
            "borders must rise from 0 to half of the 2600",
        ),
        ({"activations": torch.zeros(2, 32)}, r"activations is \[2, 32\], must be \[2600, 32\]"),
        ({"memory": torch.zeros(SAMPLES, 17)}, r"memory is \[1300, 17\], must be \[1300, 16\]"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
        ({"form": (8, 8, "crelu", 1.0)}, "the first layers of this form and width can't be computed along a plan"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    sparse = bags(400)
    plan = sparse.plan(400)
    assert plan is not None
    layer = change.pop("form", (16, 16, "crelu", 1.0))
    given: dict[str, Any] = {
        "plan": plan,
        "form": _native.StackForm("pairwise", 1.0, [layer], 1.0, False, 0),
        "table": torch.zeros(400, 32),
        "bias": torch.zeros(32),
        "parameters": [
            torch.zeros(1, layer[0], 32),
            torch.zeros(1, layer[0]),
            torch.zeros(1, layer[0]),
            torch.zeros(1),
        ],
        "borders": [0, SAMPLES],
        "activations": torch.zeros(2 * SAMPLES, 32),
        "memory": torch.zeros(SAMPLES, 16),
        "out": torch.zeros(SAMPLES),
    }
    with pytest.raises(ValueError, match=message):
        _native.first_layers_forward(**{**given, **change})

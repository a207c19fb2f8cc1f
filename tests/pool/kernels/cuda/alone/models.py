"""Whole networks along the kernels, against torch's own operations in double precision."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.perspective.config import LossConfig as PerspectiveLoss
from pool.tasks.chess.perspective.config import ModelConfig as PerspectiveConfig
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.shape import make_shape
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.training.config import TableDtype
from tests.pool.kernels.cuda.on_cpu import CpuLauncher, without_kernels
from tests.pool.kernels.sparse_inputs import random_input

BORDERS = (0, 3, 3, 10, 20, 90, 91, 100, 120)
Name = Literal["SFNNv5", "SFNNv10", "SFNNv16"]
FEATURES = 50  # that are used
SHAPES: list[dict[str, Any]] = [
    {"width": 16},
    {"width": 16, "activation": "crelu", "hidden": (8, 32), "hidden_activation": "crelu"},
    {"width": 24, "activation": "pairwise", "hidden": (16, 32)},
    {
        "width": 24,
        "activation": "pairwise",
        "hidden": (16, 8, 4),
        "hidden_activation": ("dual", "screlu", "dual"),
        "skip": True,
        "factorised_layers": (1, 3, 4),
    },
    {"width": 16, "hidden": (65,)},  # its second stage is torch's
    {"width": 6, "activation": "pairwise"},
]

FAKE: dict[str, Any] = {
    "king_buckets": (0,) * 32 + (1,) * 32,
    "output_buckets": "material_count_8",
    "width": 16,
    "activation": "pairwise",
    "hidden": (16, 32),
    "fake_quantization": ("rows", "dense"),
}


pytestmark = pytest.mark.usefixtures("cpu")


def batch(borders: tuple[int, ...] = BORDERS) -> TensorBatch:
    generator = torch.Generator().manual_seed(3)
    samples = borders[-1]
    dense = {
        "score": torch.randint(-500, 500, (samples,), generator=generator).to(torch.int16),
        "result": torch.randint(-1, 2, (samples,), generator=generator).to(torch.int8),
    }
    return TensorBatch(0, {"features": random_input(2 * samples, FEATURES, most=12)}, dense, borders)


def randomised(model: nn.Module) -> None:
    """Weights at which every clip has samples on both sides."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            size = 0.3 if parameter.ndim == 2 and "fc" not in name else 2 * parameter.shape[-1] ** -0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)


def results(model: nn.Module, given: TensorBatch) -> dict[str, Tensor]:
    """The output, and the gradients of everything for a fixed slope."""
    out: Tensor = model(given)
    out.backward(torch.linspace(-1, 1, len(out)).to(out.dtype))
    return {"out": out.detach()} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def agree(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, each in found.items():
        torch.testing.assert_close(
            each.double(), wanted[name], rtol=1e-4, atol=2e-4, msg=partial("{}: {}".format, name)
        )


@pytest.mark.parametrize("borders", [BORDERS, (0,) * 8 + (5,)], ids=["all buckets", "one bucket"])
@pytest.mark.parametrize("version", ["SFNNv5", "SFNNv10", "SFNNv16"])
@pytest.mark.parametrize("shared", [False, True])
def test_stockfishs_networks(version: Name, shared: bool, borders: tuple[int, ...], cpu: CpuLauncher) -> None:
    fused, plain = (
        StockfishModel(ModelConfig(version=version, l1=16, shared_fc_0=shared, kernels=kernels))
        for kernels in ("fused", "torch")
    )
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    found = results(fused, batch(borders))
    assert {"first_stage_backward", "stacked_pieces", "stacks_backward", "bucket_difference"} <= set(cpu.launched)
    cpu.launched.clear()
    agree(found, results(plain.double(), batch(borders)))
    assert not cpu.launched


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("buckets", ["single", "material_count_8"])
def test_perspective_networks(shape: dict[str, Any], buckets: str, cpu: CpuLauncher) -> None:
    config = PerspectiveConfig(features="chess768", king_buckets=(0,) * 64, output_buckets=buckets, **shape)
    fused, plain = PerspectiveModel(make_shape(config)), PerspectiveModel(make_shape(config))
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    given = batch(BORDERS if buckets != "single" else (0, 70))
    found = results(fused, given)
    assert "first_stage_backward" in cpu.launched
    cpu.launched.clear()
    agree(found, results(plain.double(), given))
    assert not cpu.launched


@pytest.mark.parametrize("factorized", [False, True])
def test_rows_that_are_rounded_are_summed_as_such(factorized: bool, cpu: CpuLauncher) -> None:
    """Against torch's path, which rounds alike; a factoriser counts as part of the rows."""
    models = []
    for backend in ("fused", "torch"):
        config = {**FAKE, "features": "chess768" + "^" * factorized, "kernels": backend}
        model = PerspectiveTask(PerspectiveConfig(**config), PerspectiveLoss()).build_model()
        randomised(model)
        models.append(model)
    given = batch()
    fused, plain = (results(model, given) for model in models)
    assert {"rounded_rows", "first_stage_backward", "stacked_pieces"} <= set(cpu.launched)
    agree(fused, {name: tensor.double() for name, tensor in plain.items()})
    models[0].l0.__class__ = SparseLinear
    assert (models[0](given) - fused["out"]).abs().max() > 1e-3


@pytest.mark.parametrize("fake", ["dense", "rows"])
def test_stockfishs_network_is_rounded(fake: Literal["dense", "rows"], cpu: CpuLauncher) -> None:
    fused, plain = (
        StockfishModel(ModelConfig(l1=16, kernels=kernels, fake_quantization=(fake,))) for kernels in ("fused", "torch")
    )
    for model in (fused, plain):
        randomised(model)
    found = results(fused, batch())
    assert {"first_stage_backward", "stacked_pieces"} <= set(cpu.launched)
    agree(found, {name: tensor.double() for name, tensor in results(plain, batch()).items()})


@pytest.mark.parametrize("fake", [(), ("rows", "dense")], ids=["floats", "rounded"])
@pytest.mark.parametrize("factorized", [False, True])
@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_rows_of_bfloat16(backend: Literal["fused", "torch"], factorized: bool, fake: Any, cpu: CpuLauncher) -> None:
    """Along the kernels, behind them torch's layers too, against torch's path, which rounds alike."""
    settings: dict[str, Any] = {
        "l1": 32,
        "factorized": factorized,
        "fake_quantization": fake,
        "table_dtype": "bfloat16",
    }
    model = StockfishModel(ModelConfig(kernels=backend, **settings))
    randomised(model)
    found = results(model, batch())
    assert {"rounded_rows", "first_stage" if backend == "fused" else "sum_lists"} <= set(cpu.launched)
    model.zero_grad()
    cpu.launched.clear()
    with without_kernels():
        wanted = results(model, batch())
    assert not cpu.launched
    agree(found, {name: tensor.double() for name, tensor in wanted.items()})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_perspective_networks_with_rows_of_bfloat16(shape: dict[str, Any], cpu: CpuLauncher) -> None:
    config = PerspectiveConfig(features="chess768", king_buckets=(0,) * 64, output_buckets="material_count_8", **shape)
    model = PerspectiveModel(make_shape(config), table_dtype=torch.bfloat16)
    randomised(model)
    found = results(model, batch())
    assert {"rounded_rows", "first_stage"} <= set(cpu.launched)
    plain = PerspectiveModel(make_shape(config))
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        plain.l0.weight.copy_(plain.l0.weight.bfloat16())
    agree(found, results(plain.double(), batch()))


def test_gated_layers_are_torchs(cpu: CpuLauncher) -> None:
    layers: dict[str, Any] = {"width": 16, "hidden": (8, 8), "hidden_activation": ("hard_swish", "gated")}
    model = PerspectiveModel(make_shape(PerspectiveConfig(features="chess768", output_buckets="single", **layers)))
    randomised(model)
    assert model.backend == "torch"
    results(model, batch((0, 70)))
    assert not {"first_stage_backward", "stacked_pieces"} & set(cpu.launched)


ALL: Any = ("rows", "dense", "activations")


@pytest.mark.parametrize("table_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fake", [ALL, ("activations",)], ids=["all", "activations"])
@pytest.mark.parametrize("version", ["SFNNv5", "SFNNv10", "SFNNv16"])
def test_stockfishs_activations_are_cut(version: Name, fake: Any, table_dtype: TableDtype, cpu: CpuLauncher) -> None:
    """Behind the products in double precision: no sum of this batch is so close to a step that float32 decides."""
    settings: dict[str, Any] = {"version": version, "l1": 16, "fake_quantization": fake, "table_dtype": table_dtype}
    fused, plain = StockfishModel(ModelConfig(**settings)), StockfishModel(ModelConfig(**settings, kernels="torch"))
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    plain.stacks.double().register_forward_pre_hook(lambda _, given: (given[0].double(), *given[1:]))
    found = results(fused, batch())
    assert {"first_stage_backward", "stacked_pieces", "stacks_backward"} <= set(cpu.launched)
    agree(found, {name: tensor.double() for name, tensor in results(plain, batch()).items()})
    features = batch().sparse["features"]
    assert torch.equal(fused._products_on_cuda(features), plain._products(features))


@pytest.mark.parametrize("dual", [False, True])
def test_perspectives_products_are_cut(dual: bool, cpu: CpuLauncher) -> None:
    activations = {"hidden_activation": ("dual", "screlu"), "skip": True} if dual else {}
    fused, plain = (
        PerspectiveTask(
            PerspectiveConfig(
                **{**FAKE, **activations, "features": "chess768", "fake_quantization": ALL, "kernels": backend}
            ),
            PerspectiveLoss(),
        ).build_model()
        for backend in ("fused", "torch")
    )
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    found = results(fused, batch())
    assert {"rounded_rows", "first_stage_backward", "stacked_pieces"} <= set(cpu.launched)
    agree(found, {name: tensor.double() for name, tensor in results(plain, batch()).items()})
    features = batch().sparse["features"]
    assert torch.equal(fused._first_on_cuda(features), plain._first(features))

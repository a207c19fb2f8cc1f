"""Rows of bfloat16 on CPUs: the bits of a network whose rows are such numbers, whatever else is set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pool.tasks.chess.stockfish.halfka as halfka
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess import perspective, stockfish
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.quantization import roundings as perspective_roundings
from pool.tasks.chess.stockfish.quantization import roundings
from pool.tasks.chess.training.fake_quantization import fake_round
from tests.pool.kernels.sparse_inputs import random_input

BORDERS = (0, 3, 3, 10, 20, 25, 26, 30, 40)
KINGS = (0,) * 32 + (1,) * 32
PERSPECTIVE: dict[str, dict[str, Any]] = {
    "simple": {"features": "chess768", "width": 16},
    "narrow": {"features": "chess768", "width": 6, "activation": "pairwise"},
    "king buckets": {"features": "chess768", "king_buckets": KINGS, "width": 32, "activation": "crelu"},
    "factorised": {"features": "chess768^", "king_buckets": KINGS, "width": 64, "activation": "pairwise"},
    "layers": {
        "features": "chess768^",
        "king_buckets": KINGS,
        "width": 64,
        "activation": "pairwise",
        "hidden": (16, 32),
    },
}


def table_of(model: Any) -> SparseLinear:
    layer = model.transformer if isinstance(model, stockfish.model.StockfishModel) else model.l0
    assert isinstance(layer, SparseLinear)
    return layer


def batch(features: int, samples: Sequence[int] = BORDERS) -> TensorBatch:
    """Of the last features too, which are virtual where there are some."""
    sparse = random_input(2 * samples[-1], 60, most=12)
    spread = (sparse.features.long(), sparse.touched.long())
    moved = [(numbers + (numbers >= 30) * (features - 60)).to(torch.uint32) for numbers in spread]
    lists = SparseInput(sparse.offsets, moved[0], moved[1], sparse.touched_offsets, sparse.bags)
    return TensorBatch(0, {"features": lists}, {}, tuple(samples))


def randomised(model: nn.Module) -> None:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3 if parameter.ndim == 2 else 0.1)


def results(model: nn.Module, given: TensorBatch) -> dict[str, Tensor]:
    out: Tensor = model(given)
    out.backward(torch.linspace(-1, 1, len(out)))
    return {"out": out.detach()} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def assert_same_bits(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("samples", [BORDERS, (0,) * 9], ids=["samples", "none"])
@pytest.mark.parametrize("kernels", ["fused", "torch"])
@pytest.mark.parametrize("fake", [(), ("rows",), ("rows", "dense", "activations")], ids=str)
@pytest.mark.parametrize("factorized", [False, True])
def test_stockfishs_network(factorized: bool, fake: tuple[str, ...], kernels: str, samples: tuple[int, ...]) -> None:
    """The PSQT's rows stay as they are: a queen's value has more digits than a bfloat16."""
    settings = {"l1": 32, "factorized": factorized, "kernels": kernels}
    made, plain = (
        stockfish.create_task(stockfish.ModelConfig.model_validate({**settings, **more}), stockfish.LossConfig())
        for more in ({"table_dtype": "bfloat16", "fake_quantization": fake}, {"fake_quantization": fake[1:]})
    )
    model, other = made.build_model(), plain.build_model()
    randomised(model)
    other.load_state_dict(model.state_dict())
    rules = roundings(model.version) if "rows" in fake else {}
    with torch.no_grad():
        for name in ("transformer", "psqt"):
            rows = getattr(other, name).weight
            if factorized and (name == "transformer" or fake):
                rows[: halfka.INPUTS] += rows[other.first_virtual + torch.from_numpy(halfka.virtual_features())]
                rows[other.first_virtual :] = 0
            if rules:
                rows.copy_(fake_round(rows, rules[f"{name}_weight"]))
        if rules:
            assert other.transformer.bias is not None
            other.transformer.bias.copy_(fake_round(other.transformer.bias, rules["transformer_bias"]))
        other.transformer.weight.copy_(other.transformer.weight.bfloat16())
    given = batch(model.num_features, samples)
    assert_same_bits(results(model, given), results(other, given))


@pytest.mark.parametrize("fake", [[], ["rows"]], ids=str)
@pytest.mark.parametrize("shape", PERSPECTIVE.values(), ids=PERSPECTIVE)
def test_perspective_networks(shape: dict[str, Any], fake: list[str]) -> None:
    settings = {"king_buckets": (0,) * 64, "output_buckets": "material_count_8", **shape}
    config = perspective.ModelConfig.model_validate({**settings, "fake_quantization": fake, "table_dtype": "bfloat16"})
    model, other = (
        perspective.create_task(each, perspective.LossConfig()).build_model()
        for each in (config, perspective.ModelConfig(**settings))
    )
    randomised(model)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        rows, real = other.l0.weight, model.shape.num_real
        if model.shape.num_virtual:
            rows[:real] += rows[real + torch.from_numpy(model.shape.virtual_rows())]
            rows[real:] = 0
        if fake:
            rules = perspective_roundings(list_exported_tensors(config, model.shape))
            rows.copy_(fake_round(rows, rules["l0w"]))
            assert other.l0.bias is not None
            other.l0.bias.copy_(fake_round(other.l0.bias, rules["l0b"]))
        rows.copy_(rows.bfloat16())
    given = batch(model.l0.num_features)
    assert_same_bits(results(model, given), results(other, given))


def test_steps_that_a_bfloat16_does_not_show_add_up() -> None:
    settings: dict[str, Any] = {**PERSPECTIVE["simple"], "king_buckets": (0,) * 64, "output_buckets": "single"}
    config = perspective.ModelConfig(**settings, table_dtype="bfloat16")
    model = perspective.create_task(config, perspective.LossConfig()).build_model()
    randomised(model)
    given, outputs = batch(model.l0.num_features, (0, 40)), []
    with torch.no_grad():
        model.l0.weight.copy_(model.l0.weight.bfloat16())
        for _ in range(20):
            outputs.append(model(given))
            model.l0.weight.mul_(1 + 2**-12)
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[-1])


def test_forward_changes_no_weights_and_export_takes_them_as_they_are(tmp_path: Path) -> None:
    nets = []
    for dtype in ("float32", "bfloat16"):
        task = stockfish.create_task(
            stockfish.ModelConfig.model_validate({"l1": 32, "table_dtype": dtype}), stockfish.LossConfig()
        )
        torch.manual_seed(3)
        model = task.build_model()
        results(model, batch(model.num_features))
        assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}
        assert model.transformer.weight.grad is not None
        assert model.transformer.weight.grad.dtype == torch.float32
        task.export(model, tmp_path / "own.nnue", "")
        nets.append((tmp_path / "own.nnue").read_bytes())
    assert nets[0] == nets[1]


def test_what_is_not_finite_is_seen() -> None:
    """So is what becomes so."""
    model = stockfish.create_task(
        stockfish.ModelConfig(l1=32, table_dtype="bfloat16"), stockfish.LossConfig()
    ).build_model()
    given = batch(model.num_features)
    first = int(given.sparse["features"].touched[0])
    for odd, sign in ((torch.nan, torch.nan), (torch.finfo(torch.float32).max, torch.inf), (-torch.inf, -torch.inf)):
        with torch.no_grad():
            model.transformer.weight[first, 0] = odd
            table, _ = model.transformer.effective_parameters(model.transformer.weight, None, given.sparse["features"])
        assert np.array_equal(table[first, 0].item(), sign, equal_nan=True)


@pytest.mark.parametrize("task", ["stockfish", "perspective"])
def test_other_types_are_refused_in_a_line(task: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config({"task": task, "model": {"table_dtype": "float16"}}, "test")
    assert "model.table_dtype" in str(raised.value)
    assert "float32" in str(raised.value)
    assert "bfloat16" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_tasks_have_no_such_key() -> None:
    with pytest.raises(ConfigError, match=r"^test: model\.table_dtype: unknown key"):
        parse_config({"task": "clicks", "model": {"table_dtype": "bfloat16"}}, "test")

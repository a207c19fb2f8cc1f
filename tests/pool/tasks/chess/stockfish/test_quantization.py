"""What does not fit an integer is an error that names it; the small layers are clipped instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader.errors import DataError
from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.tasks.chess.stockfish import create_task, halfka
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.nnue_file import read_net, write_net
from pool.tasks.chess.stockfish.quantization import dequantize, quantize
from pool.tasks.chess.training.config import LossConfig
from tests.pool.tasks.chess.stockfish.support import V5, random_net

Floats = dict[str, np.ndarray]


@pytest.fixture
def floats() -> Floats:
    return dequantize(random_net(8, seed=1))


def test_scales_and_rounding_are_those_of_the_format(floats: Floats) -> None:
    floats["transformer_bias"][:2] = [1.0, -100.4 / 127]
    floats["fc_0_weight"][0, 0, :5] = [0.5 / 64, 1.5 / 64, -2.5 / 64, 1.984375, 0.75 / 64]
    floats["psqt_weight"][3, 4] = 781 / 600
    floats["fc_0_bias"][1, 2] = -1.0
    floats["fc_2_weight"][0, 0] = 1.0
    floats["fc_2_bias"][7] = 0.5
    net = quantize(V5, floats, "x", clip=True)
    assert net["transformer_bias"][:2].tolist() == [127, -100]
    assert net["fc_0_weight"][0, 0, :5].tolist() == [0, 2, -2, 127, 1]
    assert net["psqt_weight"][3, 4] == 781 * 16
    assert net["fc_0_bias"][1, 2] == -8128
    assert net["fc_2_weight"][0, 0] == 76
    assert net["fc_2_bias"][7] == 4800


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("transformer_weight", (5, 3), 300.0, "transformer_weight: 1 of 180224 values do not fit int16"),
        ("transformer_weight", (5, 3), -1e30, "the most extreme is -1e\\+30"),
        ("transformer_bias", (0,), 258.02, "transformer_bias: 1 of 8 values .* allowed is -258.016 to 258.008"),
        ("psqt_weight", (9, 0), 1e6, "psqt_weight: 1 of 180224 values do not fit int32"),
        ("fc_1_bias", (2, 2), -3e5, "fc_1_bias: 1 of 256 values do not fit int32"),
        ("fc_1_weight", (2, 2, 2), float("nan"), "fc_1_weight: 1 of 7680 values are not finite"),
        ("fc_2_bias", (1,), float("inf"), "fc_2_bias: 1 of 8 values are not finite"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    floats: Floats, name: str, index: tuple[int, ...], value: float, message: str
) -> None:
    floats[name][index] = value
    with pytest.raises(ValueError, match=message) as caught:
        quantize(V5, floats, "x", clip=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["fc_0_weight", "fc_1_weight", "fc_2_weight"])
def test_weights_of_the_small_layers_are_clamped_or_refused(floats: Floats, name: str) -> None:
    floats[name].flat[:2] = [50.0, -3.0]
    assert quantize(V5, floats, "x", clip=True)[name].flat[:2].tolist() == [127, -127]
    expected = f"{name}: 2 of {floats[name].size} values do not fit int8 .* extreme is 50.*model.clip_weights"
    with pytest.raises(ValueError, match=expected):
        quantize(V5, floats, "x", clip=False)


def test_integers_too_large_for_floats_are_refused() -> None:
    net = random_net(8, seed=1)
    net["psqt_weight"][0, 0] = -(1 << 23) - 1
    with pytest.raises(ValueError, match=r"psqt_weight: 1 of 180224 values are too large .* is -8388609"):
        dequantize(net)


def test_the_largest_exact_integers_come_back() -> None:
    net = random_net(8, seed=1)
    rng = np.random.default_rng(2)
    net["psqt_weight"][:] = rng.integers(-(1 << 23), 1 << 23, net["psqt_weight"].shape, endpoint=True)
    net["transformer_weight"][:] = rng.integers(-32768, 32767, net["transformer_weight"].shape, endpoint=True)
    again = quantize(V5, dequantize(net), net.description, clip=True)
    assert np.array_equal(again["psqt_weight"], net["psqt_weight"])
    assert np.array_equal(again["transformer_weight"], net["transformer_weight"])


@pytest.mark.parametrize("shared", [False, True])
def test_clipping_keeps_the_sum_with_the_shared_layer_in_range(shared: bool) -> None:
    torch.manual_seed(1)
    stacks = StockfishModel(ModelConfig(l1=8, shared_fc_0=shared)).stacks
    with torch.no_grad():
        for parameter in stacks.parameters():
            parameter.normal_(0, 3)
    biases = {name: value.clone() for name, value in stacks.named_parameters() if "bias" in name}
    stacks.clip()
    assert stacks.fc_0()[0].abs().max().item() == pytest.approx(1.984375, abs=1e-6)
    assert stacks.fc_1_weight.abs().max().item() == 1.984375
    assert stacks.fc_2_weight.abs().max().item() == pytest.approx(1.6801042, abs=1e-7)
    assert all(torch.equal(value, dict(stacks.named_parameters())[name]) for name, value in biases.items())


def test_export_refuses_an_overflow_and_writes_nothing(tmp_path: Path) -> None:
    task = create_task(ModelConfig(l1=8), LossConfig())
    model = task.build_model()
    with torch.no_grad():
        model.transformer.weight[100, :5] = 400.0
    with pytest.raises(ValueError, match=r"transformer_weight: 5 of 180224 .* 400"):
        task.export(model, tmp_path / "x.nnue", "")
    assert not list(tmp_path.iterdir())


def test_clipping_can_be_switched_off(tmp_path: Path) -> None:
    task = create_task(ModelConfig(l1=8, clip_weights=False), LossConfig())
    model = task.build_model()
    with torch.no_grad():
        model.stacks.fc_1_weight[0, 0, 0] = 5.0
    task.after_step(model)
    assert model.stacks.fc_1_weight[0, 0, 0] == 5.0
    with pytest.raises(ValueError, match="fc_1_weight: 1 of 7680"):
        task.export(model, tmp_path / "x.nnue", "")


def test_a_net_of_another_width_is_refused_with_the_key_to_change(tmp_path: Path) -> None:
    write_net(random_net(8, seed=1), tmp_path / "x.nnue")
    task = create_task(ModelConfig(l1=16, start_from=str(tmp_path / "x.nnue")), LossConfig())
    with pytest.raises(ValueError, match=re.escape("l1 = 8; set model.l1 = 8")):
        task.initialize(task.build_model())
    missing = create_task(ModelConfig(l1=16, start_from=str(tmp_path / "y.nnue")), LossConfig())
    with pytest.raises(DataError, match="No such file"):
        missing.check(schema())


def test_a_net_of_another_version_is_refused_with_the_key_to_change(tmp_path: Path) -> None:
    write_net(random_net(8, seed=1), tmp_path / "x.nnue")
    task = create_task(ModelConfig(version="SFNNv16", l1=8, start_from=str(tmp_path / "x.nnue")), LossConfig())
    with pytest.raises(ValueError, match=r"x.nnue is SFNNv5 \(Stockfish 15.1\); set model.version = SFNNv5"):
        task.check(schema(86896))
    create_task(ModelConfig(version="SFNNv16", l1=8, factorized=True), LossConfig()).check(schema(86912 + 768))


@pytest.mark.parametrize("name", ["SFNNv10", "SFNNv16"])
def test_rows_of_threats_are_clipped_by_their_own_range(name: str) -> None:
    task = create_task(ModelConfig.model_validate({"version": name, "l1": 8}), LossConfig())
    model = task.build_model()
    with torch.no_grad():
        model.transformer.weight.normal_(0, 2)
    before = model.transformer.weight.detach().clone()
    task.after_step(model)
    weight = model.transformer.weight.detach()
    assert torch.equal(weight[:22528], before[:22528])
    lowest, one = (-128, 255) if name == "SFNNv10" else (-127, 256)
    assert torch.equal(weight[22528:], before[22528:].clamp(lowest / one, 127 / one))


def schema(num_features: int = halfka.INPUTS, bags: int = 2, buckets: int = 8, *, values: bool = False) -> BatchSchema:
    dense = (DenseField("score", "int16"), DenseField("result", "int8"))
    return BatchSchema(16, (SparseField("features", num_features, 32, bags, values),), dense, buckets)


def test_batches_that_fit_are_accepted() -> None:
    create_task(ModelConfig(l1=8), LossConfig()).check(schema())
    create_task(ModelConfig(l1=8, factorized=True), LossConfig()).check(schema(23296))


@pytest.mark.parametrize(
    ("factorized", "given", "message"),
    [
        (
            False,
            schema(23296),
            "SFNNv5 with model.factorized = false needs the 22528",
        ),
        (
            True,
            schema(),
            "SFNNv5 with model.factorized = true needs the 23296",
        ),
        (False, schema(768), "set data.chess.features = HalfKAv2_hm or change model.version or model.factorized"),
        (False, schema(bags=1), "data.source: batches have no sparse field 'features' with two bags"),
        (False, schema(values=True), "data.source: the sparse field 'features' has values; these networks know none"),
        (False, schema(buckets=1), "data.chess.features: 1 output buckets, but the net has 8"),
        (False, BatchSchema(16, schema().sparse, (), 8), "data.source: batches have no dense field result, score"),
    ],
)
def test_batches_that_do_not_fit_are_refused_with_the_key(factorized: bool, given: BatchSchema, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        create_task(ModelConfig(l1=8, factorized=factorized), LossConfig()).check(given)


@pytest.mark.parametrize(
    ("chess", "message"),
    [
        ({"output_buckets": "material_count_8"}, "data.chess.output_buckets: material_count_8, but Stockfish chooses"),
        ({"output_buckets": "single"}, "data.chess.output_buckets: single, but Stockfish chooses"),
        ({"features": "chess704", "king_buckets": list(range(32))}, "data.chess.king_buckets: 32 numbers, but"),
    ],
)
def test_as_many_inputs_or_buckets_that_are_not_the_engines_are_refused(chess: dict[str, Any], message: str) -> None:
    """chess704 with 32 king buckets has the 22,528 inputs of HalfKAv2_hm, and material_count_8 its 8 buckets."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_config({"task": "stockfish", "data": {"chess": chess}}, "test")
    table = [max(0, pieces - 1) // 4 for pieces in range(33)]
    parse_config({"task": "stockfish", "data": {"chess": {"output_buckets": table}}}, "test")


def test_the_exported_file_says_what_it_was_told(tmp_path: Path) -> None:
    task = create_task(ModelConfig(l1=8), LossConfig())
    task.export(task.build_model(), tmp_path / "x.nnue", "made by a test")
    assert read_net(tmp_path / "x.nnue").description == "made by a test"

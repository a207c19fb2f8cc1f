"""Fake quantization: what is trained is what the engine computes, and gradients are those of the floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pool.nn.batch import TensorBatch
from pool.tasks.chess.positions import Inputs, Position, read_fen
from pool.tasks.chess.stockfish import create_task
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.quantization import dequantize
from pool.tasks.chess.stockfish.stacks import LayerStacks
from pool.tasks.chess.stockfish.task import StockfishTask
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, OUTPUT_UNIT, VERSIONS
from pool.tasks.chess.stockfish.versions import bucket as bucket_of
from pool.tasks.chess.training.config import LossConfig
from tests.pool.tasks.chess.perspective.support import batch_of
from tests.pool.tasks.chess.stockfish.support import random_net, sample_fens

EVERYTHING = ("rows", "dense", "activations")


def trained(name: str, factorized: bool, fake: tuple[str, ...] = (), **more: Any) -> tuple[StockfishTask, Any]:
    """Weights between the integers, as training makes them; the same for any `fake`."""
    settings = {"version": name, "l1": 32, "factorized": factorized, "fake_quantization": fake, **more}
    task = create_task(ModelConfig.model_validate(settings), LossConfig())
    model = task.build_model()
    model.load_merged_floats(dequantize(random_net(32, seed=4, version=VERSIONS[name])))
    torch.manual_seed(1)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.02 if key.startswith("stacks") else 0.005))
    task.after_step(model)
    return task, model


def in_order(positions: list[Position]) -> tuple[TensorBatch, list[int]]:
    order = sorted(range(len(positions)), key=lambda i: bucket_of(positions[i].piece_count))
    chosen = [positions[i] for i in order]
    return batch_of(chosen, [bucket_of(p.piece_count) for p in chosen], NUM_BUCKETS), order


def outputs(model: StockfishModel, positions: list[Position]) -> np.ndarray:
    batch, order = in_order(positions)
    found = np.empty(len(positions))
    with torch.no_grad():
        found[order] = model(batch).numpy() * OUTPUT_UNIT
    return found


@pytest.mark.parametrize("factorized", [False, True])
@pytest.mark.parametrize("name", VERSIONS)
def test_what_is_trained_is_what_the_engine_computes(name: str, factorized: bool) -> None:
    fens = sample_fens(200)
    version = VERSIONS[name]
    task, model = trained(name, factorized, EVERYTHING)
    net = task.network(model).net
    value = evaluate(net, [read_fen(fen, Inputs(version.feature_set)) for fen in fens]).value
    seen = [read_fen(fen, Inputs(version.feature_set + "^" * factorized)) for fen in fens]
    difference = np.abs(value - outputs(model, seen))
    assert value.std() > 500
    assert np.mean(difference < 2) > 0.99, np.sort(difference)[-10:]  # but for floors next to which float32 has erred
    plain = np.abs(value - outputs(trained(name, factorized)[1], seen))
    assert difference.mean() < 0.1 * plain.mean()


@pytest.mark.parametrize("fake", [(), ("dense",), ("rows", "dense"), EVERYTHING])
@pytest.mark.parametrize("name", ["SFNNv5", "SFNNv16"])
def test_the_native_operation_gives_what_torchs_own_give(name: str, fake: tuple[str, ...]) -> None:
    inputs = Inputs(VERSIONS[name].feature_set)
    positions = [read_fen(fen, inputs) for fen in sample_fens(60)]
    native, plain = (trained(name, False, fake, kernels=kernels)[1] for kernels in ("fused", "torch"))
    assert native.backend == "cpu"
    assert outputs(native, positions) == pytest.approx(outputs(plain, positions), abs=0.05)


@pytest.mark.parametrize("factorized", [False, True])
def test_gradients_pass_what_is_rounded(factorized: bool) -> None:
    """Where rounding changes nothing they are those of the floats, to the last bit: of weights on the grid, with
    activations as they are."""
    inputs = Inputs("SFNNv16" + "^" * factorized)
    batch, _ = in_order([read_fen(fen, inputs) for fen in sample_fens(40)])
    gradients = []
    for fake in ((), ("rows", "dense")):
        settings = {"version": "SFNNv16", "l1": 32, "factorized": factorized, "fake_quantization": fake}
        model = StockfishModel(ModelConfig.model_validate(settings))
        model.load_merged_floats(dequantize(random_net(32, seed=4, version=VERSIONS["SFNNv16"])))
        model(batch).square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        other = gradients[1][name]
        assert gradient is not None
        assert other is not None
        assert gradient.abs().sum() > 0, name
        assert torch.equal(gradient, other), name


def test_activations_that_are_cut_still_teach_every_layer() -> None:
    _, model = trained("SFNNv16", True, EVERYTHING)
    batch, _ = in_order([read_fen(fen, Inputs("SFNNv16^")) for fen in sample_fens(40)])
    model(batch).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("name", ["SFNNv5", "SFNNv16"])
def test_gradients_pass_where_an_activation_is_cut_to_an_end_of_its_range(name: str) -> None:
    """recipe-2026.md f: the floor comes first, and the clamp passes the gradient at its ends."""
    version = VERSIONS[name]
    stacks = LayerStacks(version, 32, shared_fc_0=False, fake_quantization=EVERYTHING)
    step, highest = 1 / version.input_one, version.largest_float_input
    inside = [0.25 * step, 0.5, highest + 0.25 * step]
    outside = [-0.25 * step, highest + 1.25 * step]
    y = torch.tensor([inside + outside], requires_grad=True)
    cut = stacks._clipped(y)
    cut.sum().backward()  # type: ignore[no-untyped-call]
    assert cut[0].tolist() == pytest.approx([0, version.input_one // 2 * step, highest, 0, highest])
    assert y.grad is not None
    assert y.grad[0].tolist() == [1, 1, 1, 0, 0]


def test_rows_are_rounded_where_they_are_summed_alone() -> None:
    """Weights stay floats, so small steps add up."""
    _, model = trained("SFNNv16", True, EVERYTHING)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    outputs(model, [read_fen(fen, Inputs("SFNNv16^")) for fen in sample_fens(5)])
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert list(model.state_dict()) == list(trained("SFNNv16", True)[1].state_dict())

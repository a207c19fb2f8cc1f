"""Fake quantization: what is trained is what an engine computes with the exported file."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from loader.chess.output_buckets import buckets_by_pieces
from pool.ensemble.batched_members import BatchedMembers
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.perspective import LossConfig, ModelConfig, create_task
from pool.tasks.chess.perspective.inference import evaluate
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.positions import Inputs, Position
from pool.tasks.chess.proof import probe_positions
from tests.pool.ensemble.models import InTurn
from tests.pool.tasks.chess.perspective.support import FACTORISED, RUNGS, batch_of, random_floats

EVERYTHING = ("rows", "dense", "activations")
UNIT = 400
SIZE = 0.3  # of weights: activations are clamped at times


def trained(rung: dict[str, Any], fake: tuple[str, ...], **more: Any) -> tuple[PerspectiveTask, PerspectiveModel]:
    """The same weights for any `fake`."""
    task = create_task(ModelConfig(**{**rung, **more, "fake_quantization": fake}), LossConfig())
    model = task.build_model()
    model.load_floats(random_floats(model.shape, size=SIZE))
    return task, model


def batch(positions: list[Position], model: PerspectiveModel) -> tuple[TensorBatch, list[int]]:
    buckets = buckets_by_pieces(model.shape.output_buckets)
    order = sorted(range(len(positions)), key=lambda i: buckets[positions[i].piece_count])
    chosen = [positions[i] for i in order]
    return batch_of(chosen, [buckets[p.piece_count] for p in chosen], model.shape.buckets), order


def differences(rung: dict[str, Any], fake: tuple[str, ...], **more: Any) -> np.ndarray:
    """Of what a network says and what an engine computes with its file, in units."""
    task, model = trained(rung, fake, **more)
    positions = probe_positions(Inputs(rung["features"], rung["king_buckets"]), 200)
    net = task.network(model).net
    value = evaluate(net, probe_positions(model.shape.inputs, 200), buckets_by_pieces(net.shape.output_buckets)).value
    made, order = batch(positions, model)
    found = np.empty(len(positions))
    with torch.no_grad():
        found[order] = model(made).numpy() * UNIT
    assert value.std() > 20
    return np.abs(value - found)


CUT = [
    {"weight": "l0w", "merge": "l0f", "type": "i16", "scale": 64, "round": False},
    {"weight": "l0b", "type": "i16", "scale": 64, "round": False},
    {"weight": "l1w", "type": "i16", "scale": 32, "round": False},
    {"weight": "l1b", "type": "i16", "scale": 2048, "round": False},
]


@pytest.mark.parametrize(
    ("rung", "more"),
    [*((rung, {}) for rung in RUNGS.values()), (FACTORISED, {"export": CUT})],
    ids=[*RUNGS, "cut towards zero"],
)
def test_what_is_trained_is_what_an_engine_computes(rung: dict[str, Any], more: dict[str, Any]) -> None:
    found = differences(rung, EVERYTHING, **more)
    assert np.mean(found < 1.5) > 0.98, np.sort(found)[-10:]
    assert found.mean() < 0.7 * differences(rung, (), **more).mean()


def test_a_tensor_that_stays_a_float_is_not_rounded() -> None:
    rung = RUNGS["layers"]
    _, model = trained(rung, EVERYTHING)
    layer = model._stacks()[1]
    assert layer.rules[0] is None
    assert model._stacks()[0].rules[0] is not None
    assert model._stacks()[0].rules[1] is None


@pytest.mark.parametrize("rung", RUNGS.values(), ids=RUNGS)
def test_native_operations_give_what_torchs_own_give(rung: dict[str, Any]) -> None:
    native, plain = (trained(rung, EVERYTHING, kernels=kernels)[1] for kernels in ("fused", "torch"))
    assert native.backend == "cpu"
    made, _ = batch(probe_positions(Inputs(rung["features"], rung["king_buckets"]), 60), native)
    found = []
    for model in (native, plain):
        out = model(made)
        out.square().sum().backward()
        found.append([out, *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * (1 + other.abs().max().item()))


def test_gradients_reach_every_tensor_and_the_weights_stay_floats() -> None:
    rung = RUNGS["layers"]
    _, model = trained(rung, EVERYTHING)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    made, _ = batch(probe_positions(Inputs(rung["features"], rung["king_buckets"]), 40), model)
    model(made).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0, name
        assert torch.equal(parameter, before[name])


def test_members_that_are_computed_together_are_rounded_as_each_is_alone() -> None:
    rung = RUNGS["layers"]
    task, model = trained(rung, EVERYTHING, kernels="torch")
    made, _ = batch(probe_positions(Inputs(rung["features"], rung["king_buckets"]), 40), model)
    labels = torch.linspace(-900, 900, 40), torch.linspace(-1, 1, 40).round()
    made = TensorBatch(0, made.sparse, dict(zip(("score", "result"), labels, strict=True)), made.bucket_offsets)
    together = []
    for seed in range(3):
        _, own = trained(rung, EVERYTHING, kernels="torch")
        own.load_floats(random_floats(own.shape, seed=seed, size=SIZE))
        together.append(Member(task, own, seed, None))
    in_turn = copy.deepcopy(together)
    losses = []
    for execution in (BatchedMembers(together, InTurn([])), InTurn(in_turn)):
        found = list(execution.losses(made, Progress(0, 1)))
        for loss in found:
            loss.sum().backward()  # type: ignore[no-untyped-call]
        losses.append(torch.cat([loss.detach().reshape(-1) for loss in found]))
    assert torch.allclose(losses[0], losses[1], rtol=1e-5)
    assert len(losses[0]) == 3
    for one, other in zip(together, in_turn, strict=True):
        for mine, its in zip(one.model.parameters(), other.model.parameters(), strict=True):
            assert mine.grad is not None
            assert its.grad is not None
            assert torch.allclose(mine.grad, its.grad, rtol=1e-4, atol=1e-6)

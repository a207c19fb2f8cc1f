"""The integer evaluation against one written down number by number, and against the network in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loader.chess.output_buckets import buckets_by_pieces
from pool.tasks.chess.perspective.config import ModelConfig
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.inference import evaluate
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.quantization import Net, quantise
from pool.tasks.chess.positions import Inputs, read_fen
from pool.tasks.chess.proof import probe_fens
from tests.pool.tasks.chess.perspective.support import (
    BUCKETS,
    LAYERS,
    RUNGS,
    SIMPLE,
    batch_of,
    make_shape,
    random_floats,
    slow_evaluation,
)

FENS = list(probe_fens(31))
MORE = {
    "crelu with a layer": {**BUCKETS, "activation": "crelu", "hidden": (8,)},
    "screlu with a layer": {**SIMPLE, "hidden": (8,)},
    "pairwise alone": {**SIMPLE, "activation": "pairwise"},
}


def parse_net(model: dict[str, Any], size: float) -> Net:
    shape = make_shape(model)
    return quantise(random_floats(shape, size=size), shape, list_exported_tensors(ModelConfig(**model), shape), 400.0)


@pytest.mark.parametrize("size", [0.4, 20.0], ids=["usual", "clamped and wrapped"])
@pytest.mark.parametrize("name", [*RUNGS, *MORE])
def test_evaluations_are_those_of_a_slow_computation(name: str, size: float) -> None:
    net = parse_net({**RUNGS, **MORE}[name], size)
    positions = [read_fen(fen, net.shape.inputs) for fen in FENS]
    found = evaluate(net, positions, buckets_by_pieces(net.shape.output_buckets))
    assert found.value.tolist() == [slow_evaluation(net, fen) for fen in FENS]
    assert len(set(found.value.tolist())) > 8, "a network that tells positions apart"


@pytest.mark.parametrize("name", [*RUNGS, *MORE])
def test_the_float_network_evaluates_to_nearly_the_same(name: str) -> None:
    """So what is trained is what is exported: the same inputs, factoriser, buckets, layers and scales."""
    model = {**RUNGS, **MORE}[name]
    net = parse_net(model, 0.4)
    network = PerspectiveModel(net.shape)
    network.load_floats(random_floats(net.shape, size=0.4))
    buckets = buckets_by_pieces(net.shape.output_buckets)
    positions = [read_fen(fen, Inputs(model["features"], model["king_buckets"])) for fen in FENS]
    order = sorted(range(len(FENS)), key=lambda i: buckets[positions[i].piece_count])
    ordered = [positions[i] for i in order]
    found = network(batch_of(ordered, [buckets[p.piece_count] for p in ordered], net.shape.buckets)) * 400
    exact = evaluate(net, [read_fen(FENS[i], net.shape.inputs) for i in order], buckets).value
    assert np.abs(found.detach().numpy() - exact).max() < 0.03 * np.abs(exact).max()
    assert np.abs(exact).max() > 400


def test_sums_wrap_as_an_engines_do() -> None:
    """int16 in the first layer: 32 pieces of 1.9 * 20 * 255 leave its range."""
    net = parse_net(SIMPLE, 20.0)
    position = read_fen(FENS[30], net.shape.inputs)
    rows = net.tensors["l0w"][position.own].astype(int).sum(axis=0)
    assert np.abs(rows).max() < 32768, "clipped weights stay within"
    large = Net(net.shape, net.entries, {**net.tensors, "l0w": np.full_like(net.tensors["l0w"], 32767)}, net.unit)
    assert evaluate(large, [position], [0] * 33).value.tolist() == [slow_evaluation(large, FENS[30])]


def test_no_positions_have_no_evaluations() -> None:
    assert evaluate(parse_net(LAYERS, 0.1), [], [0] * 33).values.shape == (0, 8)

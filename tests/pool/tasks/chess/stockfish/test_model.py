"""The float network: its start, its agreement with the integers, and that training it works."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest
import torch

from loader.chess.positions.entry import Entry
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.positions import Inputs, Position, read_fen
from pool.tasks.chess.stockfish import create_task, halfka
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.nnue_file import read_net
from pool.tasks.chess.stockfish.quantization import dequantize, quantize
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, OUTPUT_UNIT, VERSIONS
from pool.tasks.chess.training.config import LossConfig
from tests.pool.tasks.chess.stockfish.support import (
    V5,
    expected_integers,
    make_batch,
    random_net,
    same_net,
    sample_entries,
    sample_fens,
    slow_position,
)


def output_of(model: StockfishModel, positions: list[Position], virtual: bool = False) -> np.ndarray:
    """Internal units, in the order of the positions."""
    batch, order = make_batch(positions, virtual=virtual)
    found = np.empty(len(positions))
    with torch.no_grad():
        found[order] = model(batch).numpy() * OUTPUT_UNIT
    return found


def is_quiet(entry: Entry) -> bool:
    """As the filters for training: no check, no capture; a net says little about the other positions."""
    board = chess.Board(entry.fen)
    return not board.is_check() and not board.is_capture(chess.Move.from_uci(entry.move)) and entry.score != 32002


def labelled(count: int, quiet: bool = False) -> TensorBatch:
    """Positions of the sample with their scores and results."""
    chosen = [entry for entry in sample_entries(count) if not quiet or is_quiet(entry)]
    positions = [slow_position(entry.fen) for entry in chosen]
    return make_batch(positions, [entry.score for entry in chosen], [entry.result or 0 for entry in chosen])[0]


def test_the_start_is_that_of_the_2022_trainer() -> None:
    torch.manual_seed(1)
    model = StockfishModel(ModelConfig(l1=16, factorized=True))
    limit = (1 / 23296) ** 0.5
    weight = model.transformer.weight.detach()
    assert weight[:22528].abs().max().item() == pytest.approx(limit, rel=1e-3)
    assert not weight[22528:].any()
    psqt = model.psqt.weight.detach()
    assert psqt[704 * 5 + 64 * 2 + 7].tolist() == pytest.approx([781 / 600] * 8)
    assert psqt[704 * 31 + 64 * 9 + 60].tolist() == pytest.approx([-2538 / 600] * 8)
    assert not psqt[704 * 3 + 640 : 704 * 4].any()
    stacks = model.stacks
    assert stacks.fc_1_weight.abs().max().item() == pytest.approx(30**-0.5, rel=0.02)
    assert not stacks.fc_2_bias.any()
    for name, parameter in stacks.named_parameters():
        if name.startswith("shared"):
            assert not parameter.any()
        else:
            assert all(torch.equal(parameter[0], parameter[b]) for b in range(8)), name


def test_the_same_seed_gives_the_same_start() -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(5)
        models.append(StockfishModel(ModelConfig(l1=8)))
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_new_net_sees_material() -> None:
    torch.manual_seed(1)
    model = StockfishModel(ModelConfig(l1=32))
    queen_up, queen_down = output_of(
        model, [slow_position("4k3/8/8/8/8/8/8/3QK3 w - - 0 1"), slow_position("4k3/8/8/8/8/8/8/3QK3 b - - 0 1")]
    )
    assert queen_up - queen_down == pytest.approx(2 * 2538, abs=400)


@pytest.mark.parametrize("l1", [8, 32])
@pytest.mark.parametrize(("factorized", "shared"), [(False, False), (True, True)])
def test_loading_and_saving_a_net_changes_nothing(l1: int, factorized: bool, shared: bool) -> None:
    net = random_net(l1, seed=2)
    net["fc_0_weight"][:, :, l1:] = 0  # padding that nothing reads is not kept
    model = StockfishModel(ModelConfig(l1=l1, factorized=factorized, shared_fc_0=shared))
    model.load_merged_floats(dequantize(net))
    assert same_net(quantize(V5, model.merged_floats(), net.description, clip=True), net)


@pytest.mark.parametrize("name", ["SFNNv10", "SFNNv16"])
def test_loading_and_saving_a_net_with_threats_changes_nothing(name: str) -> None:
    version = VERSIONS[name]
    net = random_net(8, seed=2, version=version)
    net["fc_0_weight"][:, :, 8:] = 0
    model = StockfishModel(ModelConfig.model_validate({"version": name, "l1": 8}))
    model.load_merged_floats(dequantize(net))
    assert same_net(quantize(version, model.merged_floats(), net.description, clip=True), net)


def test_virtual_inputs_behind_threats_are_folded_into_the_pieces() -> None:
    torch.manual_seed(3)
    model = StockfishModel(ModelConfig(version="SFNNv16", l1=32, factorized=True))
    with torch.no_grad():
        for table in (model.transformer, model.psqt):
            table.weight[model.version.inputs :].normal_(0, 0.1)
    merged_floats = StockfishModel(ModelConfig(version="SFNNv16", l1=32))
    merged_floats.load_merged_floats(model.merged_floats())
    fens = sample_fens(50)
    whole = output_of(model, [read_fen(fen, Inputs("SFNNv16^")) for fen in fens])
    assert output_of(merged_floats, [read_fen(fen, Inputs("SFNNv16")) for fen in fens]) == pytest.approx(
        whole, abs=0.05
    )


def test_a_new_net_with_threats_has_rows_by_the_size_of_their_sets_and_material_alone() -> None:
    torch.manual_seed(1)
    model = StockfishModel(ModelConfig(version="SFNNv16", l1=8))
    for table in model.version.tables:
        weight = model.transformer.weight[table.rows]
        assert weight.abs().max().item() == pytest.approx(table.inputs**-0.5, rel=1e-3)
    assert model.psqt.weight[: halfka.INPUTS].any()
    assert not model.psqt.weight[halfka.INPUTS :].any()


@pytest.mark.parametrize("name", VERSIONS)
def test_floats_and_integers_agree_up_to_the_floors(name: str) -> None:
    version = VERSIONS[name]
    positions = [read_fen(fen, Inputs(version.feature_set)) for fen in sample_fens(300)]
    net = random_net(32, seed=4, version=version)
    model = StockfishModel(ModelConfig.model_validate({"version": name, "l1": 32}))
    model.load_merged_floats(dequantize(net))
    difference = evaluate(net, positions).value - output_of(model, positions)
    assert abs(difference.mean()) < 30
    assert difference.std() < 60
    assert evaluate(net, positions).value.std() > 1000


@pytest.mark.parametrize("factorized", [False, True])
@pytest.mark.parametrize("name", ["SFNNv5", "SFNNv16"])
def test_initial_values_spread_by_the_number_of_inputs(name: str, factorized: bool) -> None:
    """Rows by the inputs of their set, the bias by all of the network (recipe-2026.md g)."""
    torch.manual_seed(2)
    config = ModelConfig.model_validate({"version": name, "l1": 32, "factorized": factorized})
    model = StockfishModel(config)
    virtual = 768 if factorized else 0
    halfka, *others = config.architecture.tables
    rows = [(halfka.rows, halfka.inputs + virtual), *((table.rows, table.inputs) for table in others)]
    spread = [(model.transformer.weight[where], inputs) for where, inputs in rows]
    assert model.transformer.bias is not None
    every = sum(table.inputs for table in config.architecture.tables) + virtual
    for values, inputs in (*spread, (model.transformer.bias, every)):
        assert 0.8 * inputs**-0.5 < values.abs().max().item() <= inputs**-0.5


def test_an_exported_small_net_evaluates_as_its_floats(tmp_path: Path) -> None:
    torch.manual_seed(2)
    task = create_task(ModelConfig(l1=32, factorized=True), LossConfig())
    model = task.build_model()
    with torch.no_grad():
        model.transformer.weight.normal_(0, 0.15)
    task.export(model, tmp_path / "small.nnue", "")
    net = read_net(tmp_path / "small.nnue")
    assert net.l1 == 32
    positions = [slow_position(fen) for fen in sample_fens(200)]
    difference = evaluate(net, positions).value - output_of(model, positions, virtual=True)
    assert abs(difference.mean()) < 10
    assert np.abs(difference).max() < 60


@pytest.mark.engine
def test_the_engines_net_in_floats_is_as_close_as_the_floors_allow(engine_net: Path, shared_data: Path) -> None:
    task = create_task(ModelConfig(start_from=str(engine_net)), LossConfig())
    model = task.build_model()
    task.initialize(model)
    fens, expected = expected_integers(shared_data)
    difference = expected[:, -1] - output_of(model, [slow_position(fen) for fen in fens])
    assert abs(difference.mean()) < 8
    assert difference.std() < 25
    assert np.abs(difference).max() < 250


@pytest.mark.engine
def test_a_net_started_from_the_engines_has_a_far_lower_loss(engine_net: Path) -> None:
    batch = labelled(1600, quiet=True)
    losses = []
    for path in (str(engine_net), None):
        torch.manual_seed(1)
        task = create_task(ModelConfig(start_from=path), LossConfig())
        model = task.build_model()
        task.initialize(model)
        with torch.no_grad():
            losses.append(task.loss(model, batch, Progress(0, 1)).item())
    assert losses[0] < 0.4 * losses[1]


@pytest.mark.engine
def test_saving_the_net_a_run_started_from_gives_the_same_bytes(engine_net: Path, tmp_path: Path) -> None:
    task = create_task(ModelConfig(start_from=str(engine_net)), LossConfig())
    model = task.build_model()
    task.initialize(model)
    task.after_step(model)  # nothing to clip
    task.export(model, tmp_path / "again.nnue", read_net(engine_net).description)
    assert (tmp_path / "again.nnue").read_bytes() == engine_net.read_bytes()


def test_extra_features_and_the_shared_layer_are_folded_in() -> None:
    """The full model equals one without them that is given the sums."""
    torch.manual_seed(3)
    full = StockfishModel(ModelConfig(l1=16, factorized=True, shared_fc_0=True))
    with torch.no_grad():
        for parameter in full.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    plain = StockfishModel(ModelConfig(l1=16, factorized=False, shared_fc_0=False))
    plain.load_merged_floats(full.merged_floats())
    positions = [slow_position(fen) for fen in sample_fens(100)]
    assert output_of(full, positions, virtual=True) == pytest.approx(output_of(plain, positions), abs=0.05)


def test_each_sample_goes_through_its_buckets_stack_only() -> None:
    batch = labelled(60)
    model = StockfishModel(ModelConfig(l1=16, shared_fc_0=False))
    model(batch).sum().backward()
    for bucket in range(NUM_BUCKETS):
        used = batch.bucket_offsets[bucket + 1] > batch.bucket_offsets[bucket]
        for name, parameter in model.stacks.named_parameters():
            assert parameter.grad is not None
            assert bool(parameter.grad[bucket].any()) == used, (name, bucket)
        assert model.psqt.weight.grad is not None
        assert bool(model.psqt.weight.grad[:, bucket].any()) == used


def test_a_batch_of_one_sample_works() -> None:
    model = StockfishModel(ModelConfig(l1=16))
    batch, _ = make_batch([slow_position("4k3/8/8/8/8/8/8/3QK3 w - - 0 1")])
    assert model(batch).shape == (1,)


def test_training_reduces_the_loss() -> None:
    torch.manual_seed(0)
    task = create_task(ModelConfig(l1=16), LossConfig())
    model = task.build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    batch = labelled(400)
    losses = []
    for step in range(25):
        optimizer.zero_grad()
        loss = task.loss(model, batch, Progress(step, 25))
        loss.backward()
        optimizer.step()
        task.after_step(model)
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]

"""Networks of strong engines: trained, exported in the engine's format and evaluated as the engine does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
import torch

from loader.chess.output_buckets import buckets_by_pieces
from pool.commands.main import main
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.nn.batch import TensorBatch
from pool.task.factory import make_task
from pool.task.task import Progress
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.perspective import create_task
from pool.tasks.chess.perspective.config import ModelConfig
from pool.tasks.chess.perspective.description import read_description
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.network_file import file_size
from pool.tasks.chess.perspective.shape import factorised_features, make_shape
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.positions import Inputs, read_fen
from pool.tasks.chess.proof import probe_fens
from tests.pool.tasks.chess.perspective.engines import ENGINES, Engine
from tests.pool.tasks.chess.perspective.support import batch_of
from tests.support.runs import run_well

WIDTH = 32
FENS = list(probe_fens(24))


def task_of(engine: Engine, **model: Any) -> PerspectiveTask:
    tree = engine.tree(WIDTH)
    tree["model"] |= model
    config = parse_config(tree, "test")
    task = make_task(config.task, config.model, config.loss)
    assert isinstance(task, PerspectiveTask)
    return task


def spread_out(task: PerspectiveTask) -> PerspectiveModel:
    """A model with weights of a size at which all activations are clamped at times; none is the factorisers' 0."""
    torch.manual_seed(3)
    model = task.build_model()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.25 if name.startswith("l0") else 0.4)
    task.after_step(model)
    return model


@pytest.mark.parametrize("name", ENGINES)
def test_the_file_is_the_engines_struct_and_evaluates_as_the_engine_does(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ENGINES[name]
    task = task_of(engine)
    task.export(spread_out(task), tmp_path / "net.bin", "")
    data = (tmp_path / "net.bin").read_bytes()
    assert len(data) == engine.size(WIDTH)
    tensors = engine.parse(data, WIDTH)
    words = ["eval", str(tmp_path / "net.bin"), "--json", *(word for fen in FENS for word in ("--fen", fen))]
    capsys.readouterr()
    assert main(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["value"] for line in lines] == [engine.evaluate(chess.Board(fen), tensors) for fen in FENS]
    assert [line["bucket"] for line in lines] == [engine.outputs[len(chess.Board(fen).piece_map())] for fen in FENS]
    assert len({line["value"] for line in lines}) > len(FENS) // 2, "a network that tells positions apart"


@pytest.mark.parametrize("name", ENGINES)
def test_a_file_of_the_engines_own_width_has_its_size(name: str) -> None:
    engine = ENGINES[name]
    model = parse_config(engine.tree(engine.width), "test").model
    assert isinstance(model, ModelConfig)
    shape = make_shape(model)
    assert file_size(shape, list_exported_tensors(model, shape)) == engine.size(engine.width)


def test_recklesss_file_has_the_size_of_its_release() -> None:
    assert ENGINES["Reckless"].size(768) == 63_266_880


@pytest.mark.runs
@pytest.mark.parametrize("name", ENGINES)
def test_the_network_is_trained_by_a_run_and_exported(name: str, tmp_path: Path) -> None:
    engine = ENGINES[name]
    tree = engine.tree(WIDTH)
    chess_keys = {f"data.chess.{key}": value for key, value in tree["data"].pop("chess").items()}
    keys = {f"{section}.{key}": value for section in ("data", "model", "loss") for key, value in tree[section].items()}
    steps = {"train.steps": 4, "pool.devices": ["cpu"], "pool.threads": 1}
    run = run_well(tmp_path / "run", {"task": tree["task"], **keys, **chess_keys, **steps})
    assert main(["export", str(run.dir), "-o", str(tmp_path / "net.bin")]) == 0
    tensors = engine.parse((tmp_path / "net.bin").read_bytes(), WIDTH)
    network = open_network(tmp_path / "net.bin")
    positions = [read_fen(fen, network.inputs) for fen in FENS]
    assert network.evaluate(positions).value.tolist() == [engine.evaluate(chess.Board(fen), tensors) for fen in FENS]


def batch(model: PerspectiveModel) -> TensorBatch:
    inputs = model.shape.inputs
    features = factorised_features(inputs.features) if model.shape.num_virtual else inputs.features
    by_pieces = buckets_by_pieces(model.shape.output_buckets)
    positions = [read_fen(fen, Inputs(features, inputs.king_buckets)) for fen in FENS]
    positions.sort(key=lambda position: by_pieces[position.piece_count])
    made = batch_of(positions, [by_pieces[each.piece_count] for each in positions], model.shape.buckets)
    numbers = {
        "score": torch.arange(len(FENS), dtype=torch.int16) * 20 - 200,
        "result": torch.ones(len(FENS), dtype=torch.int8),
    }
    return TensorBatch(0, made.sparse, numbers, made.bucket_offsets)


@pytest.mark.parametrize("kernels", ["fused_first_layer", "fused", "torch"])
@pytest.mark.parametrize("name", ENGINES)
def test_every_tensor_is_trained_whatever_computes_it(name: str, kernels: str) -> None:
    found = {}
    for chosen in (kernels, "torch"):
        task = task_of(ENGINES[name], kernels=chosen, sparsity_penalty=0.5)
        model = spread_out(task)
        loss = task.loss(model, batch(model), Progress(0, 1))
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert all(gradient is not None and gradient.any() for gradient in gradients.values()), gradients
        found[chosen] = {"loss": loss, **gradients}
    torch.testing.assert_close(found[kernels], found["torch"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ENGINES)
def test_fake_quantization_trains_what_the_engine_computes(name: str) -> None:
    """Rows of relations have no virtual ones, those of pieces have."""
    task = task_of(ENGINES[name], fake_quantization=["rows", "dense", "activations"])
    model = spread_out(task)
    found = model(batch(model)).detach().numpy() * ENGINES[name].unit
    network = task.network(model)
    positions = sorted(
        (read_fen(fen, network.inputs) for fen in FENS),
        key=lambda position: ENGINES[name].outputs[position.piece_count],
    )
    exact = network.evaluate(positions).value
    assert np.abs(found - exact).max() < 0.01 * np.abs(exact).max() + 2


def test_layers_without_kernels_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert task_of(ENGINES["Viridithas"]).build_model().backend == "torch"
    said = "has no fused kernels: torch's own operations take 1.2 to 2.1 times as long on a CPU"
    assert [record.getMessage() for record in caplog.records] == [f"model.hidden_activation = hard_swish {said}"]
    assert task_of(ENGINES["PlentyChess"]).build_model().backend == "cpu"
    assert len(caplog.records) == 1


def test_the_penalty_is_the_mean_activation_and_of_training_alone() -> None:
    plain, with_penalty = task_of(ENGINES["Obsidian"]), task_of(ENGINES["Obsidian"], sparsity_penalty=0.25)
    model = spread_out(plain)
    given = batch(model)
    mean = model._first(given.sparse["features"]).mean().item()
    assert mean > 0.01
    losses = [task.loss(model, given, Progress(0, 1)).item() for task in (plain, with_penalty)]
    assert losses[1] - losses[0] == pytest.approx(0.25 * mean, rel=1e-4)
    model.eval()
    assert with_penalty.loss(model, given, Progress(0, 1)).item() == losses[0]


@pytest.mark.parametrize("name", ["raw.bin", "weights.bin", "net.bin"])
def test_a_network_of_blocks_and_shared_layers_begins_where_its_file_ended(name: str, tmp_path: Path) -> None:
    """Factorisers are in weights.bin; the others have them added up."""
    task = task_of(ENGINES["Viridithas"])
    model = spread_out(task)
    task.export(model, tmp_path / name, "")
    described = read_description(tmp_path / name)
    assert described is not None
    again = create_task(described.model.model_copy(update={"start_from": str(tmp_path / name)}), described.loss)
    started = again.build_model()
    again.initialize(started)
    before, after = task.network(model).tensors, again.network(started).tensors
    assert before.keys() == after.keys()
    for key, values in before.items():
        assert np.array_equal(values, after[key]), key
    assert (started.shape.factorisers == model.shape.factorisers) == (name != "raw.bin")


def test_blocks_are_clipped_by_themselves() -> None:
    task = task_of(ENGINES["Viridithas"], clip_tensors={"l0w[threats]": 0.3, "l0w[pieces]": 0.2, "l2w": 0.1})
    model = spread_out(task)
    floats, blocks = model.shape.merge_factorisers(model.floats()), model.shape.blocks
    largest = {name: abs(floats["l0w"][rows]).max() for name, rows in blocks.items()}
    assert largest["l0w[threats]"] == np.float32(0.3)
    assert largest["l0w[pieces]"] == pytest.approx(0.2, rel=1e-6)
    assert largest["l0w[pawn_pairs]"] > 0.6
    assert abs(floats["l2w"]).max() == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("language", ["c", "rust"])
def test_headers_name_blocks_and_chunks(language: str, tmp_path: Path) -> None:
    task = task_of(ENGINES["Reckless"])
    text = task.header(spread_out(task), tmp_path / "net.bin", language)
    wanted = {"c": "int8_t l0w_threats[66864][32];", "rust": "pub l0w_threats: [[i8; 32]; 66864],"}
    chunks = {"c": "int8_t l1w[8][8][16][4];", "rust": "pub l1w: [[[[i8; 4]; 16]; 8]; 8],"}
    assert wanted[language] in text
    assert chunks[language] in text


def test_a_weight_that_does_not_fit_its_block_says_what_would_have_kept_it() -> None:
    task = task_of(ENGINES["Reckless"], clip_tensors={})
    with pytest.raises(ValueError, match=r'l0w\[threats\]: .* model.clip_tensors = { "l0w\[threats\]" = 0.498 }'):
        task.network(spread_out(task))


def test_layers_behind_the_sums_may_be_integers_and_are_evaluated_nearly_the_same() -> None:
    """As pawnocchio's file has them: Q = 64, and l1b in the unit of the sums."""
    scales = {"l1b": 255 * 255 * 128 / 512, "l2w": 64, "l2b": 64**3, "l3w": 64, "l3b": 64**4}
    listed = ENGINES["Obsidian"].tree(WIDTH)["model"]["export"]
    entries = [
        {**entry, "type": "i32", "scale": scales[entry["weight"]]} if entry["weight"] in scales else entry
        for entry in listed
    ]
    values = []
    for export in (listed, entries):
        task = task_of(ENGINES["Obsidian"], export=export)
        network = task.network(spread_out(task))
        values.append(network.evaluate([read_fen(fen, network.inputs) for fen in FENS]).value)
    assert (values[0] != values[1]).any()
    assert abs(values[0] - values[1]).max() < 0.05 * abs(values[0]).max()


def changed(changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    export = [
        {**entry, **changes.get(entry["weight"], {})} for entry in ENGINES["Viridithas"].tree(WIDTH)["model"]["export"]
    ]
    return {"export": [entry for entry in export if entry["weight"]]}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (changed({"l0w[threats]": {"weight": ""}}), r"l0w\[threats\]: missing; every tensor"),
        (changed({"l0w[threats]": {"weight": "l0w"}}), r"l0w and l0w\[pieces\]: list the whole or all its blocks"),
        (changed({"l0w[threats]": {"scale": 64}}), r"the same scale and round are expected"),
        (changed({"l0w[threats]": {"merge": "l0f"}}), r"l0w\[threats\]: merge = l0f is for l0w"),
        (changed({"l2w": {"merge": "l3fw"}}), r"l2w: merge = l3fw is for l3w"),
        (changed({"l0b": {"chunk": 4}}), r"l0b: chunk is for the weights of a layer behind the first"),
        (changed({"l1w": {"chunk": 3}}), r"l1w: chunk = 3 does not divide its 32 inputs"),
        (changed({"l1w": {"chunk": 4, "transpose": True}}), r"l1w: transpose and chunk are two orders"),
        (changed({"l2b": {"weight": "l2fw"}}), r"l2b: missing"),
        ({"hidden_activation": ["crelu"]}, r"1 activations, but model.hidden has 2 layers"),
        ({"factorised_layers": [4]}, r"model.factorised_layers: there is no layer 4; the last is 3"),
        (
            {"hidden": [32], "hidden_activation": "crelu", "skip": True, "factorised_layers": []},
            r"model.skip: model.hidden must have two layers",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        task_of(ENGINES["Viridithas"], **model).build_model()


@pytest.mark.parametrize("given", ["gelu", ["dual", "gelu"]])
def test_an_unknown_activation_is_refused_with_those_there_are(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"model\.hidden_activation: input should be 'crelu', .* or 'gated'"):
        task_of(ENGINES["PlentyChess"], hidden_activation=given)


def test_a_shared_layer_is_never_lost_in_silence() -> None:
    task = task_of(ENGINES["Viridithas"], **changed({"l2w": {"merge": None}}))
    with pytest.raises(ValueError, match='l2w: without merge = "l2fw" what the factoriser has learnt would be lost'):
        task.network(spread_out(task))

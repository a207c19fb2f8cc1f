"""From settings to a trained network's file, and what `pool eval` and an engine in C make of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.commands.main import PROGRAM
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.perspective import LossConfig, ModelConfig, create_task, network_file
from pool.tasks.chess.perspective import task as module
from pool.tasks.chess.perspective.config import ExportTensor
from pool.tasks.chess.perspective.description import read_description
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.header import generate_header
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.network import PerspectiveNetwork
from pool.tasks.chess.perspective.shape import make_shape
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.positions import Inputs, read_fen
from pool.tasks.chess.proof import probe_fens, probe_positions
from tests.pool.tasks.chess.perspective.support import (
    FACTORISED,
    LAYERS,
    MIRRORED,
    RUNGS,
    SIMPLE,
    batch_of,
    random_floats,
)
from tests.support.pages import DOCS, files
from tests.support.paths import DATA, SAMPLE
from tests.support.tools import need_program
from tests.support.warm import call_pool

PAGE = DOCS / "tutorial/own-engine.md"


def task_of(model: dict[str, Any], **loss: Any) -> PerspectiveTask:
    return create_task(ModelConfig(**model), LossConfig(**loss))


def model_of(task: PerspectiveTask, size: float = 0.4) -> PerspectiveModel:
    model = task.build_model()
    model.load_floats(random_floats(model.shape, size=size))
    return model


def config_of(chess: dict[str, Any], model: dict[str, Any]) -> Any:
    return parse_config({"task": "perspective", "data": {"chess": chess}, "model": model}, "x.toml").model


def test_inputs_and_output_buckets_are_those_of_the_data() -> None:
    chess = {"features": "chess768^", "king_buckets": list(MIRRORED), "output_buckets": "material_count_8"}
    model = config_of(chess, {})
    assert (model.features, model.king_buckets, model.output_buckets) == ("chess768^", MIRRORED, "material_count_8")
    assert config_of(chess, {"features": "chess768^"}) == model
    with pytest.raises(
        ConfigError, match=r"x.toml: model.features: 'chess768' is not data.chess.features, 'chess768\^'"
    ):
        config_of(chess, {"features": "chess768"})


def schema(inputs: int = 768, buckets: int = 1, **changes: Any) -> BatchSchema:
    field = SparseField("features", inputs, max_active=32, bags_per_sample=2)
    given = {"sparse": (field,), "dense": (DenseField("score", "int16"), DenseField("result", "int8"))}
    return BatchSchema(8, num_buckets=buckets, **{**given, **changes})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (schema(7680), "model.features: 768 inputs, but the batches have 7680"),
        (schema(buckets=8), "model.output_buckets: 1, but the batches have 8"),
        (schema(dense=()), "batches have no dense field result, score"),
        (schema(sparse=(SparseField("features", 768, max_active=32),)), "no sparse field 'features' with two bags"),
    ],
)
def test_batches_that_do_not_fit_are_refused(given: BatchSchema, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        task_of(SIMPLE).check(given)


def test_what_is_behind_the_first_layer_is_clipped() -> None:
    task = task_of({**LAYERS, "clip_weights": 0.5})
    model = model_of(task, size=5.0)
    before = model.floats()
    task.after_step(model)
    for name, values in model.floats().items():
        changed = (values != before[name]).any()
        assert changed != name.startswith("l0")
        assert name.startswith("l0") or abs(values).max() == 0.5


@pytest.mark.parametrize("rung", [SIMPLE, FACTORISED], ids=["simple", "factorised"])
def test_single_tensors_have_limits_of_their_own_and_the_first_layer_with_its_factoriser(rung: dict[str, Any]) -> None:
    limits = {"l0w": 0.6, "l0b": 0.3, "l1b": 0.0}
    task = task_of({**rung, "clip_weights": 0.5, "clip_tensors": limits})
    model = model_of(task, size=1.0)
    before = model.floats()
    version = model.l0.weight._version
    task.after_step(model)
    after = model.floats()
    assert model.l0.weight._version > version  # the pool sees it: rows that no batch touched change too
    whole, was = (
        floats["l0w"] + (floats["l0f"][model.shape.virtual_rows()] if model.shape.num_virtual else 0.0)
        for floats in (after, before)
    )
    assert abs(whole).max() == pytest.approx(0.6, rel=1e-6)
    assert (abs(was) > 0.6).any()
    assert after["l0w"][abs(was) < 0.6] == pytest.approx(before["l0w"][abs(was) < 0.6], rel=1e-5)
    assert abs(after["l0b"]).max() == pytest.approx(0.3)
    assert abs(after["l1w"]).max() == 0.5
    assert (after["l1b"] == before["l1b"]).all()
    if model.shape.num_virtual:
        assert (after["l0f"] == before["l0f"]).all()


def test_limits_for_tensors_that_the_network_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model.clip_tensors: this network has no l0f; it has l0w, l0b, l1w, l1b"):
        task_of({**SIMPLE, "clip_tensors": {"l0f": 1.0}}).check(schema())
    with pytest.raises(ConfigError, match=r"model\.clip_tensors\.l0w: .*greater than or equal to 0"):
        config_of({"features": "chess768"}, {"clip_tensors": {"l0w": -1}})


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("name", ["net.bin", "net.raw.bin", "weights.bin"])
def test_an_exported_file_is_the_network_wherever_it_is_read(rung: str, name: str, tmp_path: Path) -> None:
    task = task_of(RUNGS[rung])
    model = model_of(task)
    task.export(model, tmp_path / name, "")
    read = open_network(tmp_path / name)
    assert isinstance(read, PerspectiveNetwork)
    described = read_description(tmp_path / name)
    assert described is not None
    again = create_task(described[0].model_copy(update={"start_from": str(tmp_path / name)}), described[1])
    started = again.build_model()
    again.initialize(started)
    for key, values in task.network(model).net.tensors.items():
        assert (read.tensors[key] == values).all()
        assert (again.network(started).net.tensors[key] == values).all()


def test_a_raw_file_with_its_factoriser_listed_has_it_by_itself(tmp_path: Path) -> None:
    entries = [{"weight": name} for name in ("l0f", "l0w", "l0b", "l1w", "l1b")]
    task = task_of({**FACTORISED, "export": entries})
    model = model_of(task)
    task.export(model, tmp_path / "raw.bin", "")
    again = task_of({**FACTORISED, "export": entries, "start_from": str(tmp_path / "raw.bin")})
    started = again.build_model()
    again.initialize(started)
    for name, values in model.floats().items():
        assert (started.floats()[name] == values).all()


def pool(*arguments: str | Path) -> str:
    done = call_pool(*arguments)
    return done.stdout if done.returncode == 0 else done.stderr


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """As `pool`, in this process."""
    assert PROGRAM.main([*map(str, arguments)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_eval_knows_a_file_by_what_lies_beside_it_or_by_a_config(tmp_path: Path) -> None:
    task = task_of(FACTORISED, output_unit=361.0)
    model = model_of(task)
    task.export(model, tmp_path / "net.bin", "mine")
    fens = list(probe_fens(8))
    network = open_network(tmp_path / "net.bin")
    inputs = network.inputs
    values = network.evaluate([read_fen(fen, inputs) for fen in fens]).value.tolist()
    (tmp_path / "x.epd").write_text("\n".join(fens))
    lines = pool("eval", tmp_path / "net.bin", "--epd", tmp_path / "x.epd", "--json").splitlines()
    assert [json.loads(line)["value"] for line in lines] == values
    assert [json.loads(line)["bucket"] for line in lines] == [(i + 2 - 2) // 4 for i in range(8)]
    assert json.loads((tmp_path / "net.bin.json").read_text())["description"] == "mine"
    (tmp_path / "net.bin.json").unlink()
    with pytest.raises(
        ConfigError, match=r"does not say what network it holds, and net.bin.json is not beside it: name"
    ):
        open_network(tmp_path / "net.bin")
    (tmp_path / "c.toml").write_text(
        f'task = "perspective"\n[data.chess]\nfeatures = "chess768^"\nking_buckets = {list(MIRRORED)}\n'
        'output_buckets = "material_count_8"\n[model]\nwidth = 32\n[loss]\noutput_unit = 361.0\n'
    )
    named = open_network(tmp_path / "net.bin", config_file=tmp_path / "c.toml")
    assert named.evaluate([read_fen(fen, inputs) for fen in fens]).value.tolist() == values
    task.export(model, tmp_path / "net.weights.bin", "")
    floats = open_network(tmp_path / "net.weights.bin", config_file=tmp_path / "c.toml")
    assert floats.evaluate([read_fen(fen, inputs) for fen in fens]).value.tolist() == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON that can be read"),
        ('{"task": "clicks"}', '"task": "perspective" is expected'),
        ('{"task": "perspective", "sha256": "0"}', "the whole: input should be an object"),
    ],
)
def test_a_description_that_is_none_is_named(text: str, said: str, tmp_path: Path) -> None:
    task = task_of(SIMPLE)
    task.export(model_of(task), tmp_path / "net.bin", "")
    (tmp_path / "net.bin.json").write_text(text)
    with pytest.raises(ValueError, match=f"net.bin.json: .*{said}"):
        open_network(tmp_path / "net.bin")


def test_a_description_of_another_file_is_named(tmp_path: Path) -> None:
    task = task_of(SIMPLE)
    model = model_of(task)
    task.export(model, tmp_path / "net.bin", "")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    task.export(model, tmp_path / "other.bin", "")
    (tmp_path / "other.bin.json").replace(tmp_path / "net.bin.json")
    with pytest.raises(ValueError, match=r"net\.bin\.json: belongs to another file than net\.bin"):
        open_network(tmp_path / "net.bin")


def test_a_file_that_evaluates_to_anything_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(SIMPLE)
    model = model_of(task)
    bytes_of = task.network(model).net
    wrong = {**bytes_of.tensors, "l1b": bytes_of.tensors["l1b"] + 300}
    stored = network_file.quantised_bytes
    monkeypatch.setattr(
        module, "quantised_bytes", lambda net: stored(type(net)(net.shape, net.entries, wrong, net.unit))
    )
    with pytest.raises(ValueError, match="64 of 64 positions evaluate to something else with its file"):
        task.export(model, tmp_path / "net.bin", "")
    assert not list(tmp_path.iterdir())


def test_the_engine_of_the_tutorial_evaluates_to_exactly_what_pool_eval_says(tmp_path: Path) -> None:
    code = files(PAGE)["eval.c"]
    assert len(code.splitlines()) <= 60
    task = task_of({**SIMPLE, "width": 128})
    model = model_of(task)
    task.export(model, tmp_path / "net.bin", "")
    (tmp_path / "net.h").write_text(task.header(model, tmp_path / "net.bin", "c"))
    (tmp_path / "eval.c").write_text(code)
    compiler = need_program("cc", "gcc")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    subprocess.run([compiler, *flags, "-o", "eval", "eval.c"], cwd=tmp_path, check=True, timeout=120)
    fens = [line.partition("|")[0].strip() for line in (DATA / "vectors/positions.txt").read_text().splitlines()]
    assert len(fens) == 829
    (tmp_path / "x.epd").write_text("\n".join(fens))
    engine = subprocess.run(
        [tmp_path / "eval", "net.bin"], cwd=tmp_path, input="\n".join(fens), text=True, capture_output=True, check=True
    )
    lines = pool("eval", tmp_path / "net.bin", "--epd", tmp_path / "x.epd", "--json").splitlines()
    assert engine.stdout.split() == [str(json.loads(line)["value"]) for line in lines]


@pytest.mark.parametrize("rung", RUNGS)
def test_headers_compile_and_agree_with_the_files_size(rung: str, tmp_path: Path) -> None:
    net = task_of(RUNGS[rung]).network(model_of(task_of(RUNGS[rung]))).net
    (tmp_path / "net.h").write_text(generate_header(net, "c", "net.bin"))
    (tmp_path / "x.c").write_text('#include "net.h"\nstruct net net;\n')
    compiler = need_program("cc", "gcc")
    subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "-c", "x.c"], cwd=tmp_path, check=True, timeout=60)
    rust = generate_header(net, "rust", "net.bin")
    assert "pub struct Net {" in rust
    if (rustc := shutil.which("rustc")) is not None:
        (tmp_path / "net.rs").write_text(rust)
        subprocess.run(
            [rustc, "--crate-type", "lib", "--emit", "metadata", "net.rs"], cwd=tmp_path, check=True, timeout=60
        )


@pytest.mark.parametrize("rung", RUNGS)
def test_gradients_reach_every_tensor(rung: str) -> None:
    """The last layer's, too, and the factoriser's."""
    task = task_of(RUNGS[rung])
    model = model_of(task)
    named = [read_fen(fen, Inputs(RUNGS[rung]["features"], RUNGS[rung]["king_buckets"])) for fen in probe_fens(4)]
    out = model(batch_of(named, [0] * 4, model.shape.buckets))
    out.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0, name
    if model.shape.num_virtual:
        assert model.l0.weight.grad is not None
        assert model.l0.weight.grad[model.shape.first_virtual :].abs().sum() > 0


@pytest.mark.parametrize("name", ["net.bin", "raw.bin", "weights.bin"])
def test_a_file_is_inspected_and_converted_to_a_checkpoint_that_exports_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = task_of(FACTORISED)
    model = model_of(task)
    task.export(model, tmp_path / name, "of an author")
    facts = json.loads(said_by(capsys, "inspect", tmp_path / name, "--json"))
    assert facts["about"]["network"] == "(7680 -> 32)x2 -> 1, 8 times"
    assert [tensor["name"] for tensor in facts["tensors"]] == ["l0w", "l0b", "l1w", "l1b"]
    said = said_by(capsys, "convert", tmp_path / name, "--to", "checkpoint", "-o", tmp_path / "made")
    assert said.startswith(f"{tmp_path / 'made'}"), said
    assert said_by(capsys, "export", tmp_path / "made", "-o", tmp_path / f"again.{name}").startswith(
        f"{tmp_path}/again.{name}: "
    )
    assert (tmp_path / f"again.{name}").read_bytes() == (tmp_path / name).read_bytes()
    assert json.loads((tmp_path / f"again.{name}.json").read_text())["description"] == "of an author"


@pytest.mark.parametrize("name", ["net.bin", "weights.bin"])
def test_the_order_of_pairs_is_free(name: str, tmp_path: Path) -> None:
    """The file has the pairs in the new order, factoriser included, and evaluates to the same."""
    task = task_of(LAYERS)
    model = model_of(task)
    model.l0.weight.data = model.l0.weight.data[:, :4].repeat(1, 8)  # pairs 4 apart are 0 together
    before = task.network(model)
    said = task.reorder(model, [str(SAMPLE / "validation.binpack")])
    shares = [float(share) for share in re.findall(r"([\d.]+)%", said)]
    assert shares[1] > 1.2 * shares[0]
    task.export(model, tmp_path / name, "")
    again = task_of({**LAYERS, "start_from": str(tmp_path / name)})
    started = again.build_model()
    again.initialize(started)
    after = again.network(started)
    positions = probe_positions(before.inputs)
    assert (after.evaluate(positions).values == before.evaluate(positions).values).all()
    assert (after.net.tensors["l0w"] != before.net.tensors["l0w"]).any()


def test_what_has_no_pairs_has_no_order_to_change() -> None:
    task = task_of(SIMPLE)
    with pytest.raises(ConfigError, match=r"--permute: orders pairs, and model\.activation = screlu has none"):
        task.reorder(model_of(task), [str(SAMPLE / "validation.binpack")])


QA, QB = {"type": "i16", "scale": 255.0}, {"type": "i16", "scale": 64.0}
LAST = {"type": "i16", "scale": 16320.0}
EXAMPLES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "simple": ("simple", {"l0w": QA, "l0b": QA, "l1w": QB, "l1b": LAST}),
    "output_buckets": ("buckets", {"l0w": QA, "l0b": QA, "l1w": {**QB, "transpose": True}, "l1b": LAST}),
    "input_buckets": (
        "factorised",
        {"l0w": {**QA, "merge": "l0f"}, "l0b": QA, "l1w": {**QB, "transpose": True}, "l1b": LAST},
    ),
    "multi_layer": (
        "layers",
        {
            "l0w": {**QA, "merge": "l0f"},
            "l0b": QA,
            "l1w": {"type": "i8", "scale": 64.0, "transpose": True},
            "l1b": {},
            **{f"l{layer}{kind}": {"transpose": kind == "w"} for layer in (2, 3) for kind in "wb"},
        },
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_ready_made_lists_are_those_of_the_examples(name: str) -> None:
    rung, tensors = EXAMPLES[name]
    wanted = tuple(ExportTensor(weight=weight, **settings) for weight, settings in tensors.items())
    for given in (name, "auto"):
        model = ModelConfig.model_validate({**RUNGS[rung], "export_as": given})
        assert list_exported_tensors(model, make_shape(model)) == wanted


def test_export_writes_a_header_on_request_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = task_of(SIMPLE)
    task.export(model_of(task), tmp_path / "net.bin", "")
    said_by(capsys, "convert", tmp_path / "net.bin", "-o", tmp_path / "run")
    for language, written in (("none", []), ("c", ["x.h"]), ("rust", ["x.rs"])):
        folder = tmp_path / language
        folder.mkdir()
        said = said_by(capsys, "export", tmp_path / "run", "-o", folder / "x.bin", "--header", language)
        assert sorted(path.name for path in folder.iterdir()) == sorted(["x.bin", "x.bin.json", *written])
        assert all(f"{folder / name}: what x.bin holds" in said for name in written)

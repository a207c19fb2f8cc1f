"""`pool predict`: a line a sample, in the data's order, as a whole or not at all; nothing a checkpoint names is run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from csv import reader as csv_reader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from loader.files.identity import identify
from loader.stream.data import Data
from loader.stream.interface import Cursor
from loader.stream.sequential import read_in_file_order
from pool.analysis.predict import Predictor, predict_file
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, OptimizerNumbers
from pool.config.changes import Change
from pool.config.load import parse_config
from pool.errors import ConfigError, PoolError
from pool.export.load import load_network
from pool.nn.batch import TensorBatch
from pool.task.factory import make_task
from pool.tasks.clicks.task import ClicksTask
from tests.loader.conftest import write_random_games
from tests.support.crafted import reseal
from tests.support.toy_model import ToyTask
from tests.support.warm import call_pool

NNUE = {"task": "stockfish", "model": {"l1": 32}, "data": {"batch_size": 64, "threads": 1}}
TOY = {"task": "tests.support.toy", "data": {"source": "tests.loader.stream.test_in_order:Numbers", "batch_size": 4}}
OF_TOY = [Change.parse("data.source=tests.loader.stream.test_in_order:Numbers")]


def saved(run: Path, tree: dict[str, Any], change: Callable[[nn.Module], object] | None = None) -> Path:
    """A checkpoint of a fresh model, as a run writes it; `change`: of the model before."""
    run.mkdir()
    config = parse_config(tree, "test")
    torch.manual_seed(0)
    task = make_task(config.task, config.model, config.loss)
    model = task.build_model()
    if change is not None:
        change(model)
    optimizer = OptimizerNumbers({}, [], [])
    return store.save_checkpoint(
        run / FOLDER,
        store.Checkpoint(
            step=1,
            cursor=Cursor(1),
            config=config.model_dump(mode="json"),
            fingerprint={},
            data=[],
            weights=model.state_dict(),
            optimizer_tensors={},
            optimizer=optimizer,
        ),
    )


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("games") / "one.binpack"
    write_random_games(path, 150, seed=5)
    return path


def test_positions_get_the_networks_output_in_their_order_also_as_a_command(game: Path, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "run", NNUE)
    output = tmp_path / "scores.tsv"
    command = ("predict", tmp_path / "run", "--data", game, "-o", output)
    done = call_pool(*command)
    assert (done.returncode, done.stderr) == (0, "")
    scores = np.loadtxt(output, np.float32)
    assert done.stdout == f"{output}: {len(scores)} samples, from {checkpoint}\n"
    found = load_network(checkpoint, None)
    expected = np.full(len(scores), np.nan, np.float32)
    config = parse_config({**NNUE, "data": {"batch_size": 1000}}, "test").data
    for batch, order in read_in_file_order(Data(config, identify([game]), 42)):  # one batch: another order within
        with torch.no_grad():
            expected[order] = found.model(TensorBatch.from_numpy(batch)).numpy() * 600
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)
    assert len(set(scores.tolist())) > 100
    again = call_pool(*command)
    assert (again.returncode, again.stderr) == (
        2,
        f"pool: {output}: is there already; give another name, or remove it first\n",
    )


@contextmanager
def predicting(answer: Any) -> Iterator[None]:
    own = ToyTask.predict
    ToyTask.predict = answer  # type: ignore[method-assign]
    try:
        yield
    finally:
        ToyTask.predict = own  # type: ignore[method-assign]


def ask(checkpoint: Path, output: Path) -> str:
    predict_file(Predictor.open(checkpoint, str(TOY["task"]), "predict"), [], output, OF_TOY)
    return output.read_text()


def test_several_numbers_of_a_sample_are_columns(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "run", TOY)
    with predicting(lambda _self, _model, batch: torch.stack([batch.dense["number"], batch.dense["number"] * 2], 1)):
        assert ask(checkpoint, tmp_path / "ints") == "".join(f"{number}\t{2 * number}\n" for number in range(10))
    with predicting(lambda _self, _model, batch: batch.dense["number"].double() / 3):
        assert ask(checkpoint, tmp_path / "doubles").splitlines()[1] == "0.33333333333333331"
    with predicting(lambda _self, _model, batch: batch.dense["number"].bfloat16()):
        assert ask(checkpoint, tmp_path / "halves").split() == list("0123456789")
    with predicting(lambda _self, model, _batch: torch.tensor([float(model.training)] * len(_batch.dense["number"]))):
        assert set(ask(checkpoint, tmp_path / "mode").split()) == {"0"}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda *_: torch.zeros(3), r"gives \(3,\), and \[4\] or \[4, k\] is expected"),
        (lambda *_: torch.zeros(4, 1, 1), r"gives \(4, 1, 1\), and"),
        (lambda *_: [1.0] * 4, "gives list, and"),
        (lambda *_: 1 // 0, r"task tests.support.toy: ZeroDivisionError: .*test_predict.py"),
    ],
)
def test_what_a_task_must_not_give_is_named_and_nothing_is_written(answer: Any, complaint: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "run", TOY)
    with predicting(answer), pytest.raises(PoolError, match=complaint):
        ask(checkpoint, tmp_path / "out.tsv")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_task_without_the_method_is_told_to_add_it(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "run", TOY)
    own = ToyTask.predict
    del ToyTask.predict
    try:
        with pytest.raises(ConfigError, match=r"tests.support.toy has no method predict\(model, batch\).*: add it"):
            ask(checkpoint, tmp_path / "out")
    finally:
        ToyTask.predict = own  # type: ignore[method-assign]


def test_a_source_or_a_format_that_a_checkpoint_names_is_not_run_unless_the_caller_names_it(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "run", TOY)
    with pytest.raises(ConfigError, match=r"the data.source of .* only if you name it too: --set data.source=tests"):
        predict_file(Predictor.open(checkpoint, str(TOY["task"]), "predict"), [], tmp_path / "out")
    reseal(checkpoint, lambda tree: tree["config"]["data"].update(format="some.module"))
    with pytest.raises(ConfigError, match=r"the data.format of .* is some.module"):
        ask(checkpoint, tmp_path / "out")
    changes = [*OF_TOY, Change.parse("data.format=x"), Change.parse("train.steps=3")]
    with pytest.raises(ConfigError, match=r"--set train.steps: predict takes keys of data alone"):
        predict_file(Predictor.open(checkpoint, str(TOY["task"]), "predict"), [], tmp_path / "out", changes)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_eval_of_a_checkpoint_is_that_of_the_file_it_is_exported_as(tmp_path: Path) -> None:
    saved(tmp_path / "run", NNUE)
    saved(tmp_path / "toy", TOY)

    net = tmp_path / "net.nnue"
    assert call_pool("export", tmp_path / "run", "-o", net).returncode == 0
    file = call_pool("eval", net, "--fen", "startpos", "--json")
    found = call_pool("eval", tmp_path / "run", "--fen", "startpos", "--json")
    assert (found.returncode, found.stdout) == (0, file.stdout), found.stderr
    refused = call_pool("eval", tmp_path / "toy", "--fen", "startpos")
    assert refused.returncode == 2
    assert (
        "is of the task tests.support.toy, and eval is for stockfish, perspective: see pool predict" in refused.stderr
    )


# --- rows of data that nobody has labelled, and their names ---

ROWS = [("a1", 1, 0.5, "x"), ("b 2", 0, 2.0, "y"), ("ü3", 1, 1.25, "x"), ("d4", 0, 1.5, "z"), ("e5", 1, 3.0, "")]
OF_COLUMNS: dict[str, Any] = {
    "task": "clicks",
    "data": {"source": "rows", "batch_size": 2, "rows": {"label": "binary", "fields": {"word": [0, 50]}}},
    "model": {"fields": {"word": 50}},
}
OF_NUMBERS: dict[str, Any] = {
    "task": "clicks",
    "data": {"source": "rows", "batch_size": 2, "rows": {"label": "binary", "num_features": 50}},
    "model": {"fields": {"features": 50}},
}


def csv(path: Path, *, labels: bool, separator: str = ",", weight: bool = False) -> None:
    names = ["name", *(["label"] if labels else []), *(["weight"] if weight else []), "word"]
    rows = [
        [name, *([str(label)] if labels else []), *(["2"] if weight else []), word] for name, label, _, word in ROWS
    ]
    path.write_text("".join(separator.join(row) + "\n" for row in [names, *rows]))


def svmlight(path: Path, *, labels: bool) -> None:
    path.write_text(
        "".join(f"{f'{label} ' if labels else ''}3:{value} {label + 10}:1\n" for _, label, value, _ in ROWS)
    )


def npz(path: Path, *, labels: bool) -> None:
    values = np.array([value for _, _, value, _ in ROWS], np.float32)
    own: dict[str, Any] = {"y": np.array([label for _, label, _, _ in ROWS], np.float32)} if labels else {}
    np.savez(path, indptr=np.arange(6), indices=np.full(5, 3), data=values, **own)


def parquet(path: Path, *, labels: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns: dict[str, Any] = {"name": [row[0] for row in ROWS], "word": [row[3] for row in ROWS]}
    if labels:
        columns["label"] = [row[1] for row in ROWS]
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)


FORMATS: dict[str, tuple[Any, dict[str, Any]]] = {
    "x.csv": (csv, OF_COLUMNS),
    "x.tsv": (lambda path, labels: csv(path, labels=labels, separator="\t"), OF_COLUMNS),
    "x.parquet": (parquet, OF_COLUMNS),
    "x.svm": (svmlight, OF_NUMBERS),
    "x.npz": (npz, OF_NUMBERS),
}


@pytest.mark.parametrize("name", FORMATS)
def test_rows_need_no_labels_whatever_their_format(name: str, tmp_path: Path) -> None:
    write, tree = FORMATS[name]
    saved(tmp_path / "run", tree)
    for labels in (True, False):
        (tmp_path / str(labels)).mkdir()
        write(tmp_path / str(labels) / name, labels=labels)  # type: ignore[operator]
        done = call_pool(
            "predict", tmp_path / "run", "--data", tmp_path / str(labels) / name, "-o", tmp_path / f"{labels}.tsv"
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "True.tsv").read_text() == (tmp_path / "False.tsv").read_text()
    assert len((tmp_path / "True.tsv").read_text().splitlines()) == len(ROWS)


def test_weights_are_needed_as_little(tmp_path: Path) -> None:
    saved(
        tmp_path / "run",
        {**OF_COLUMNS, "data": {**OF_COLUMNS["data"], "rows": {**OF_COLUMNS["data"]["rows"], "weight": True}}},
    )  # type: ignore[dict-item]
    for weight in (True, False):
        csv(tmp_path / f"{weight}.csv", labels=weight, weight=weight)
        done = call_pool(
            "predict", tmp_path / "run", "--data", tmp_path / f"{weight}.csv", "-o", tmp_path / f"{weight}.tsv"
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "True.tsv").read_text() == (tmp_path / "False.tsv").read_text()


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.parquet"])
def test_lines_begin_with_a_column_of_the_data_below_their_names_also_on_standard_output(
    name: str, tmp_path: Path
) -> None:
    write, tree = FORMATS[name]
    saved(tmp_path / "run", tree)
    write(tmp_path / name, labels=False)  # type: ignore[operator]
    command = ("predict", tmp_path / "run", "--data", tmp_path / name, "--data", tmp_path / name)
    plain = call_pool(*command, "-o", "-")
    assert plain.returncode == 0, plain.stderr
    assert f": {2 * len(ROWS)} samples, from {tmp_path}/run/checkpoints/step-000000001\n" in plain.stderr
    named = call_pool(*command, "--id", "name", "--header", "-o", "-")
    assert named.returncode == 0, named.stderr
    lines = [line.split("\t") for line in named.stdout.splitlines()]
    assert lines[0] == ["name", "prediction"]
    assert [line[0] for line in lines[1:]] == [row[0] for row in ROWS] * 2
    assert [line[1] for line in lines[1:]] == plain.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x.csv", "id,word\n1,x\n", "no column 'name' (--id); there are id, word"),
        ("x.csv", 'name,word\n"a\tb",x\n', "--id: 'a\\tb' has a tab or a line end in it"),
        ("x.svm", "3:1\n", "has no columns with names, as csv and parquet have"),
    ],
)
def test_what_is_no_name_of_rows_is_one_line(name: str, content: str, complaint: str, tmp_path: Path) -> None:
    saved(tmp_path / "run", FORMATS[name][1])
    (tmp_path / name).write_text(content)
    done = call_pool("predict", tmp_path / "run", "--data", tmp_path / name, "--id", "name", "-o", tmp_path / "out")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode in (2, 65)
    assert not (tmp_path / "out").exists()


def test_the_ending_of_the_output_says_its_format(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    saved(tmp_path / "run", OF_COLUMNS)
    csv(tmp_path / "x.csv", labels=False)
    (tmp_path / "x.csv").write_text((tmp_path / "x.csv").read_text().replace("ü3", '"a, ""b"""'))
    names = [row[0].replace("ü3", 'a, "b"') for row in ROWS]
    predictor = Predictor.open(tmp_path / "run", None, "predict")

    def predicted(name: str, **words: Any) -> Path:
        assert predict_file(predictor, [str(tmp_path / "x.csv")], tmp_path / name, **words).samples == len(ROWS)
        return tmp_path / name

    plain = predicted("a.tsv").read_text()
    assert predicted("a.txt").read_text() == predicted("a").read_text() == predicted("a.csv").read_text() == plain
    numbers = np.array(plain.split(), np.float32)
    with predicted("b.csv", ids="name", header=True).open(newline="") as file:
        lines = list(csv_reader(file))
    assert lines == [["name", "prediction"], *([name, text] for name, text in zip(names, plain.split(), strict=True))]
    table = parquet.read_table(predicted("a.PARQUET"))
    assert table.schema.equals(pyarrow.schema([("prediction", pyarrow.float32())]))
    assert table["prediction"].to_numpy().tolist() == numbers.tolist()
    table = parquet.read_table(predicted("b.parquet", ids="name"))
    assert table.schema.names == ["name", "prediction"]
    assert table["name"].to_pylist() == names
    with predicting_probabilities(3):
        predictor = Predictor.open(tmp_path / "run", None, "predict")
        table = parquet.read_table(predicted("c.parquet"))
    assert table.schema.names == ["prediction_0", "prediction_1", "prediction_2"]
    assert table.num_rows == len(ROWS)


@contextmanager
def predicting_probabilities(count: int) -> Iterator[None]:
    own = ClicksTask.predict
    ClicksTask.predict = lambda _self, _model, batch: torch.zeros(len(batch.sparse["word"].offsets) - 1, count)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        ClicksTask.predict = own  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["p.feather", "p.parquet.gz", "p.npy", "p.json", "p.xlsx"])
def test_an_ending_of_no_format_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    saved(tmp_path / "run", OF_COLUMNS)
    csv(tmp_path / "x.csv", labels=False)
    done = call_pool("predict", tmp_path / "run", "--data", tmp_path / "x.csv", "-o", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"pool: {tmp_path / name}: predictions end in .tsv, .csv, .txt or .parquet, and {Path(name).suffix} is "
        f"something else; name it {Path(name).stem}.tsv\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "x.csv"]


def test_parquet_without_the_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "run", OF_COLUMNS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"p.parquet: needs the package pyarrow: pip install 'sparsepool\[parquet\]'"):
        predict_file(Predictor.open(tmp_path / "run", None, "predict"), ["x"], tmp_path / "p.parquet")


def test_a_task_that_needs_labels_is_not_trained_without() -> None:
    with pytest.raises(ConfigError, match=r"data.rows.label: none .* pool predict sets it"):
        parse_config(
            {**OF_COLUMNS, "data": {"source": "rows", "rows": {"label": "none", "fields": {"word": [0, 50]}}}}, "x"
        )

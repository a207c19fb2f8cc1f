"""`pool predict`: a line a sample, in the data's order, as a whole or not at all; nothing a checkpoint names is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader.files.identity import identify
from loader.in_order import batches_in_order
from loader.stream import Cursor
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, OptimizerNumbers
from pool.config.changes import Change
from pool.config.reading import parse_config
from pool.errors import ConfigError, PoolError
from pool.nn.batch import TensorBatch
from pool.runs.predict import predict_file
from pool.tasks.making import make_task
from pool.trained.model import load_trained
from tests.loader.conftest import write_random_games
from tests.support.crafted import reseal
from tests.support.toy_model import ToyTask
from tests.support.warm import call_pool

NNUE = {"task": "stockfish", "model": {"l1": 32}, "data": {"batch_size": 64, "threads": 1}}
TOY = {"task": "tests.support.toy", "data": {"source": "tests.loader.stream.test_in_order:Numbers", "batch_size": 4}}
OF_TOY = [Change.parse("data.source=tests.loader.stream.test_in_order:Numbers")]


def saved(run: Path, tree: dict[str, Any]) -> Path:
    """A checkpoint of a fresh model, as a run writes it."""
    run.mkdir()
    config = parse_config(tree, "test")
    torch.manual_seed(0)
    task = make_task(config.task, config.model, config.loss)
    model = task.build_model()
    optimizer = OptimizerNumbers({}, [], [])
    return store.save(
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
        keep=1,
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
    found = load_trained(checkpoint, None)
    expected = np.full(len(scores), np.nan, np.float32)
    config = parse_config({**NNUE, "data": {"batch_size": 1000}}, "test").data
    for batch, order in batches_in_order(config, identify([game]), 42):  # one batch: another order within
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
    predict_file(checkpoint, [], output, TOY["task"], OF_TOY)  # type: ignore[arg-type]
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
        predict_file(checkpoint, [], tmp_path / "out", str(TOY["task"]))
    reseal(checkpoint, lambda tree: tree["config"]["data"].update(format="some.module"))
    with pytest.raises(ConfigError, match=r"the data.format of .* is some.module"):
        ask(checkpoint, tmp_path / "out")
    changes = [*OF_TOY, Change.parse("data.format=x"), Change.parse("train.steps=3")]
    with pytest.raises(ConfigError, match=r"--set train.steps: predict takes keys of data alone"):
        predict_file(checkpoint, [], tmp_path / "out", str(TOY["task"]), changes)
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

"""`pool predict` says what share of the data's features its network was never trained on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loader.stream.interface import Cursor
from pool.analysis.predict import PredictionSummary, Predictor, predict_file
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, OPTIMIZER, OptimizerNumbers
from pool.commands.main import main
from pool.config.load import parse_config
from pool.metrics.feature_uses import UntrainedShare
from pool.task.factory import build_model, make_task
from tests.support.runs import run_well

SIZE = 100
TREE: dict[str, Any] = {
    "task": "clicks",
    "run": {"seed": 7},
    "data": {
        "source": "rows",
        "batch_size": 3,
        "rows": {"label": "binary", "fields": {"user": [0, SIZE], "item": [SIZE, 2 * SIZE]}, "values": False},
    },
    "model": {"kind": "factorization", "rank": 3, "fields": {"user": SIZE, "item": SIZE}},
}
TRAINED = [3, 17, 40]  # rows of both tables
USERS = [3, 17, 18, 18, 19]
ITEMS = [40, 3, 40, 17, 3]

States = Mapping[str, Tensor]  # of an optimizer, by its own names


def save(
    folder: Path, change: Callable[[Tensor], object], state: Callable[[Tensor], States] = lambda _: {}, **model: Any
) -> Path:
    """A checkpoint of a new model whose tables have been changed, with the optimizer's state of each."""
    folder.mkdir()
    config = parse_config({**TREE, "model": {**TREE["model"], **model}}, "test")
    made = build_model(make_task(config.task, config.model, config.loss), config.run.seed)
    tables = {name: tensor for name, tensor in made.named_parameters() if name.startswith("table_")}
    with torch.no_grad():
        for table in tables.values():
            change(table)
    states = {f"{name}/{key}": each for name, table in tables.items() for key, each in state(table.detach()).items()}
    store.save_checkpoint(
        folder / FOLDER,
        store.Checkpoint(
            step=1,
            cursor=Cursor(1),
            config=config.model_dump(mode="json"),
            fingerprint={},
            data=[],
            weights=made.state_dict(),
            optimizer_tensors=states,
            optimizer=OptimizerNumbers({}, [], []),
        ),
    )
    return folder


def predicted(folder: Path) -> PredictionSummary:
    data = folder / "data.svm"
    data.write_text("".join(f"0 {user}:1 {SIZE + item}:1\n" for user, item in zip(USERS, ITEMS, strict=True)))
    return predict_file(Predictor.open(folder, None, "predict"), [str(data)], folder / "out.tsv")


def train(table: Tensor) -> None:
    table[TRAINED] += 0.25


def decay(table: Tensor) -> None:
    for _ in range(1000):
        table *= 1 - 1e-5
    train(table)


def squares(table: Tensor, first: float = 0.0) -> States:
    sums = torch.full_like(table, first)
    sums[TRAINED] = first + 0.5
    return {"exp_avg": torch.randn_like(table), "exp_avg_sq": sums, "step": torch.tensor(5.0)}


def row_sums(table: Tensor) -> States:
    return {"sum": squares(table)["exp_avg_sq"][:, 0].clone()}


def zero_again(table: Tensor) -> None:
    """What L1 makes of rows, trained or not."""
    table.zero_()


KNOWN = (UntrainedShare("user", 4, 2, 5, 3), UntrainedShare("item", 3, 0, 5, 0))


@pytest.mark.parametrize(
    ("change", "state", "model"),
    [
        (train, lambda _: {}, {}),
        (train, lambda _: {}, {"kind": "logistic"}),
        (train, squares, {"kind": "mlp"}),
        (train, lambda table: squares(table, 0.1), {}),
        (train, row_sums, {}),
        (decay, squares, {}),
        (decay, row_sums, {"kind": "dcn"}),
        (zero_again, squares, {"kind": "logistic"}),
    ],
)
def test_rows_that_no_batch_has_touched_are_counted(
    change: Callable[[Tensor], object], state: Callable[[Tensor], States], model: dict[str, Any], tmp_path: Path
) -> None:
    found = predicted(save(tmp_path / "run", change, state, **model))
    assert (found.samples, found.untrained) == (len(USERS), KNOWN)


def test_nothing_is_said_where_it_cannot_be_known(tmp_path: Path) -> None:
    other = save(tmp_path / "other", nn.init.normal_)  # of no new model
    assert [share.untrained for share in predicted(other).untrained] == [0, 0]
    begun = save(tmp_path / "begun", train, start_from=str(other))
    assert predicted(begun).untrained == ()


def test_a_line_says_so_if_it_is_more_than_a_small_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save(tmp_path / "run", train)
    predicted(folder)
    (folder / "out.tsv").unlink()
    assert main(["predict", str(folder), "--data", str(folder / "data.svm"), "-o", str(folder / "out.tsv")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "user: 2 of the 4 different features in the data were never trained, 60.0% of all uses"
    ]
    assert UntrainedShare("a", 10, 1, 1000, 10).is_small
    assert not UntrainedShare("a", 10, 1, 1000, 11).is_small


def test_a_pipe_in_place_of_the_optimizers_state_is_not_waited_for(tmp_path: Path) -> None:
    folder = save(tmp_path / "run", train, squares)
    (state,) = folder.glob(f"{FOLDER}/step-*/{OPTIMIZER}")
    state.unlink()
    os.mkfifo(state)
    assert predicted(folder).untrained == KNOWN


@pytest.mark.runs
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("torch.optim.SGD", {"lr": 0.1}),
        ("torch.optim.AdamW", {"lr": 0.01, "weight_decay": 0.1}),
        ("pool.optim.FTRL", {"lr": 0.1, "l1": 0.1}),
    ],
)
def test_features_of_a_runs_own_data_are_trained_and_others_are_not(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "train.csv").write_text("label,user\n" + "".join(f"{row % 2},{row % 50}\n" for row in range(1000)))
    (tmp_path / "later.csv").write_text("label,user\n" + "".join(f"{row % 2},u{row % 100}\n" for row in range(1000)))
    settings = {
        "task": "clicks",
        "data.source": "rows",
        "data.train": [str(tmp_path / "train.csv")],
        "data.batch_size": 100,
        "data.rows.label": "binary",
        "data.rows.fields": {"user": [0, 100_000]},
        "data.rows.values": False,
        "model.kind": "factorization",
        "model.fields": {"user": 100_000},
        "optimizer.name": name,
        "optimizer.args": arguments,
        "train.steps": 20,
        "pool.devices": ["cpu"],
    }
    run_well(tmp_path / "run", settings)
    predictor = Predictor.open(tmp_path / "run", None, "predict")
    (own,) = predict_file(predictor, [str(tmp_path / "train.csv")], tmp_path / "own.tsv").untrained
    assert (own.features, own.untrained) == (50, 0)
    (later,) = predict_file(predictor, [str(tmp_path / "later.csv")], tmp_path / "later.tsv").untrained
    assert later.features > 95
    assert later.features - later.untrained <= 5  # by their hashes

"""Clicks in columns, numbers among them: a run ends where logistic regression on standardised columns does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import pytest

from pool.metrics.classification import AUC
from tests.support.runs import Ended, run, run_well

pytestmark = pytest.mark.runs

ROWS, HELD_OUT, ITEMS = 24000, 8000, 20
SETTINGS: dict[str, Any] = {
    "task": "clicks",
    "data.source": "rows",
    "data.batch_size": 1000,
    "data.rows.fields": {"item": [0, 4096]},
    "data.rows.values": False,
    "data.rows.label": "binary",
    "data.rows.dense": ["price", "age", "stock"],
    "model.fields": {"item": 4096},
    "model.dense_log": ["price"],
    "optimizer.name": "pool.optim.Adam",
    "optimizer.args.lr": 0.1,
    "schedule.name": "torch.optim.lr_scheduler.CosineAnnealingLR",
    "schedule.args.T_max": 60,
    "train.batches_per_step": 2,
    "train.steps": 60,
    "train.validate_every": 60,
    "train.validation_batches": HELD_OUT // 1000,
    "pool.devices": ["cpu"],
    "pool.threads": 1,
}

Table = dict[str, npt.NDArray[Any]]


def made() -> Table:
    """Numbers of very different size; what they say is drawn from a logistic model of them."""
    random = np.random.default_rng(7)
    count = ROWS + HELD_OUT
    item = random.integers(0, ITEMS, count)
    table = {"price": random.lognormal(6, 2, count), "age": random.normal(45, 12, count), "stock": np.full(count, 3.0)}
    logit = 0.6 * np.log(table["price"]) - 0.05 * table["age"] + random.normal(0, 0.8, ITEMS)[item] - 1.5
    label = random.random(count) < 1 / (1 + np.exp(-logit))
    return {"label": label.astype(np.int64), **table, "item": np.array([f"i{number}" for number in item])}


def written(table: Table, rows: slice, path: Path) -> str:
    columns = {name: column[rows] for name, column in table.items()}
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=2000)
    else:
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    return str(path)


def best_auc(table: Table) -> float:
    """The AUC on what is held out of logistic regression on standardised columns and items, by Newton's method."""
    numbers = np.stack([np.log1p(table["price"]), table["age"]], axis=1)
    numbers = (numbers - numbers[:ROWS].mean(axis=0)) / numbers[:ROWS].std(axis=0)
    items = table["item"][:, None] == np.array([f"i{number}" for number in range(ITEMS)])
    x = np.concatenate([numbers, items], axis=1).astype(np.float64)
    weights = np.zeros(x.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-x[:ROWS] @ weights))
        slope = x[:ROWS].T @ (table["label"][:ROWS] - chance) - weights
        curve = (x[:ROWS] * (chance * (1 - chance))[:, None]).T @ x[:ROWS] + np.eye(x.shape[1])
        weights += np.linalg.solve(curve, slope)
    arrays = {"scores": (x[ROWS:] @ weights).astype(np.float32), "labels": table["label"][ROWS:].astype(np.float32)}
    return AUC().value(arrays)


def auc_of(ended: Ended) -> float:
    return float(ended.metrics()[-1]["validation_auc"])


def files(table: Table, tmp_path: Path, suffix: str) -> dict[str, Any]:
    train = written(table, slice(0, ROWS), tmp_path / f"train{suffix}")
    return {"data.train": [train], "data.validation": [written(table, slice(ROWS, None), tmp_path / f"later{suffix}")]}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_run_is_as_good_as_logistic_regression_on_standardised_columns(suffix: str, tmp_path: Path) -> None:
    table = made()
    ended = run_well(tmp_path / "run", {**SETTINGS, **files(table, tmp_path, suffix)})
    assert auc_of(ended) == pytest.approx(best_auc(table), abs=0.003)


@pytest.mark.parametrize("kind", ["factorization", "mlp", "dcn"])
def test_every_model_reads_the_numbers(kind: str, tmp_path: Path) -> None:
    table = made()
    more = {"model.kind": kind, "model.rank": 3, "optimizer.args.lr": 0.03}
    ended = run_well(tmp_path / "run", {**SETTINGS, **files(table, tmp_path, ".parquet"), **more})
    assert auc_of(ended) == pytest.approx(best_auc(table), abs=0.02)


def test_the_numbers_mean_and_deviation_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    settings = {**SETTINGS, **files(made(), tmp_path, ".parquet"), "train.steps": 6, "train.validate_every": 0}
    one = run_well(tmp_path / "one", settings)
    two = run_well(tmp_path / "two", {**settings, "pool.devices": ["cpu", "cpu"]})
    assert one.weights()["numbers.count"] == 6000
    assert one.digest() == two.digest()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_categories_with_values_are_refused(suffix: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, **files(made(), tmp_path, suffix), "data.rows.values": ["item"]}
    ended = run(tmp_path / "run", settings)
    assert ended.code == 2
    (line,) = [line for line in ended.err.splitlines() if "data.rows.values" in line]
    assert "data.rows.values: item: a field takes the categories of columns, and a category has no value; name" in line

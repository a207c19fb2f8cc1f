"""train.validation_batches = "all": every sample counts once, as a computation by hand over all of them has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.rows.many_rows import FEATURES, ManyRows, make
from tests.support.paths import SAMPLE
from tests.support.runs import STOCKFISH, Ended, check, run, run_well

ROWS = {"num_features": FEATURES, "label": "binary"}
DEATHS = [
    "feeder.batch_taken@30=kill",
    "worker.before_finish@25=kill",
    "coordinator.after_publish@6=kill",
    "feeder.before_seek@2=kill",
]


def settings(tmp_path: Path, rows: ManyRows, **more: Any) -> dict[str, Any]:
    (tmp_path / "train.svm").write_bytes(make(3000, 5).text)
    (tmp_path / "held.svm").write_bytes(rows.text)
    return {
        "task": "clicks",
        "data.source": "rows",
        "data.rows": ROWS,
        "data.batch_size": 100,
        "data.train": [str(tmp_path / "train.svm")],
        "data.validation": [str(tmp_path / "held.svm")],
        "model.fields": {"features": FEATURES},
        "optimizer.args.lr": 0.1,
        "train.steps": 9,
        "train.batches_per_step": 2,
        "train.validate_every": 3,
        "train.validation_batches": "all",
        "pool.snapshot_steps": 2,
        "pool.devices": ["cpu"],
        **more,
    }


def validations(ended: Ended) -> list[dict[str, float]]:
    names = ("step", "validation_loss", "validation_auc", "validation_log_loss", "average_loss", "average_auc")
    return [
        {name: entry[name] for name in names if name in entry}
        for entry in ended.metrics()
        if "validation_loss" in entry
    ]


def scores_of(rows: ManyRows, weights: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """[rows], of a logistic model, in double precision."""
    table = weights["table_features.weight"][:, 0].astype(np.float64)
    scores: np.ndarray[Any, Any] = (table[rows.numbers] * rows.values).sum(axis=1) + float(weights["bias"][0])
    return scores


@pytest.mark.parametrize("count", [1, 99, 100, 101, 1234, 2000])
def test_loss_and_metrics_are_those_of_all_rows(count: int, tmp_path: Path) -> None:
    rows = make(count, 9)
    ended = run_well(tmp_path / "run", settings(tmp_path, rows))
    last = validations(ended)[-1]
    assert last["step"] == 9
    scores = scores_of(rows, ended.weights())
    loss = float(np.logaddexp(0, np.where(rows.labels == 1, -scores, scores)).mean())
    assert last["validation_loss"] == pytest.approx(loss, rel=1e-6)
    assert last["validation_log_loss"] == pytest.approx(loss, rel=1e-6)
    higher = scores[rows.labels == 1][:, None] - scores[rows.labels == 0]
    if higher.size:
        auc = ((higher > 0) + 0.5 * (higher == 0)).mean()
        assert last["validation_auc"] == pytest.approx(auc, rel=1e-12)


@pytest.mark.parametrize("devices", [["cpu"], ["fake:0", "fake:1"]], ids=["cpu", "fake"])
def test_deaths_and_workers_change_no_number(devices: list[str], tmp_path: Path) -> None:
    rows = make(1234, 9)
    given = settings(tmp_path, rows, **{"train.average.kind": "swa", "pool.devices": devices})
    undisturbed = run_well(tmp_path / "undisturbed", given)
    disturbed = run_well(tmp_path / "disturbed", {**given, "testing.crash_points": DEATHS})
    assert disturbed.out.count("restart") >= len(DEATHS) - 1
    assert validations(disturbed) == validations(undisturbed)
    assert len(validations(undisturbed)) == 4
    assert disturbed.digest() == undisturbed.digest()


def test_validations_of_all_rows_leave_the_weights(tmp_path: Path) -> None:
    rows = make(1234, 9)
    given = settings(tmp_path, rows)
    assert (
        run_well(tmp_path / "all", given).digest()
        == run_well(tmp_path / "some", {**given, "train.validation_batches": 3}).digest()
    )


def test_a_share_of_the_training_rows_is_taken_whole(tmp_path: Path) -> None:
    """In blocks of 16 rows: what is held out is what training leaves out."""
    given = settings(tmp_path, make(1, 1), **{"data.validation": [], "data.validation_share": 0.1})
    ended = run_well(tmp_path / "run", given)
    page = check(tmp_path / "check", given)
    assert "all 304 samples" in page.out, page.out + page.err
    assert validations(ended)[-1]["validation_loss"] > 0


def test_positions_are_taken_whole_whatever_buckets_they_are_in(tmp_path: Path) -> None:
    """A batch size at which no batch is left over measures the same."""
    one = {**STOCKFISH, "data.validation": [str(SAMPLE / "validation.binpack")], "train.steps": 3}
    one |= {"train.validation_batches": "all", "data.chess.filters.skip_captures": True}
    small = run_well(tmp_path / "small", one)
    (last,) = [entry for entry in small.metrics() if entry.get("validation_loss") and entry["step"] == 3]
    again = run_well(tmp_path / "again", {**one, "pool.devices": ["cpu"], "pool.threads": 1})
    (other,) = [entry for entry in again.metrics() if entry.get("validation_loss") and entry["step"] == 3]
    assert last["validation_loss"] == pytest.approx(other["validation_loss"], rel=1e-5)


def test_data_that_can_not_be_counted_are_told(tmp_path: Path) -> None:
    toy: dict[str, Any] = {"task": "tests.support.toy", "data.source": "tests.support.data.validated:NamedSource"}
    (tmp_path / "a.binpack").touch()
    toy |= {"data.validation": [str(tmp_path / "a.binpack")], "train.validation_batches": "all"}
    ended = run(tmp_path / "run", toy)
    assert ended.code != 0
    assert "train.validation_batches: the source tests.support.data.validated:NamedSource does not count" in ended.err

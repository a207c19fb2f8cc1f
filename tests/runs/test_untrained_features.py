"""A run says what share of a validation's features its training data never have: most often ids spelled otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.runs import Ended, run_well

USERS = 50
SAID = "features in the validation data were in no batch of a whole pass over the training data"


def rows(users: Iterable[str]) -> str:
    return "label,user,item\n" + "".join(f"{row % 2},{user},{row % 7}\n" for row, user in enumerate(users))


def settings(folder: Path, validation: str) -> dict[str, Any]:
    """A run of four passes over 1,000 rows, with validations of all of 250."""
    (folder / "train.csv").write_text(rows(str(row % USERS) for row in range(1000)))
    (folder / "later.csv").write_text(validation)
    return {
        "task": "clicks",
        "data.source": "rows",
        "data.train": [str(folder / "train.csv")],
        "data.validation": [str(folder / "later.csv")],
        "data.batch_size": 100,
        "data.rows.label": "binary",
        "data.rows.fields": {"user": [0, 1 << 20], "item": [1 << 20, 1 << 21]},
        "data.rows.values": False,
        "data.rows.columns.float_ids": "text",
        "model.fields": {"user": 1 << 20, "item": 1 << 20},
        "optimizer.name": "pool.optim.Adam",
        "train.steps": 40,
        "train.validate_every": 10,
        "train.validation_batches": "all",
        "pool.devices": ["fake:0"],
    }


def lines(ended: Ended) -> list[str]:
    return [line for line in ended.out.splitlines() if SAID in line]


def test_ids_that_are_spelled_otherwise_are_said_once_whatever_dies(tmp_path: Path) -> None:
    otherwise = settings(tmp_path, rows(f"{row % USERS}.0" for row in range(250)))
    whole = run_well(tmp_path / "whole", otherwise)
    (line,) = lines(whole)
    assert (
        f"user: 50 of the 50 different {SAID}, 100.0% of all uses; most often their ids are written otherwise" in line
    )
    killed = run_well(tmp_path / "killed", {**otherwise, "testing.crash_points": ["feeder.batch_taken@8=kill"]})
    assert "restarted" in killed.out
    assert [said[said.index("user:") :] for said in lines(killed)] == [line[line.index("user:") :]]
    assert killed.digest() == whole.digest()


def test_nothing_is_said_of_a_small_share(tmp_path: Path) -> None:
    users = (str(row % USERS) if row < 248 else "new" for row in range(250))
    assert lines(run_well(tmp_path / "run", settings(tmp_path, rows(users)))) == []

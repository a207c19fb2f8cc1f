"""COLUMNS, LINES and TERMINAL_WIDTH in the environment: what is no size is as if it were not there."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from rich.console import Console

from loader.cli.main import PROGRAM as LOADER
from loader.command_line.program import Program
from pool.commands.main import PROGRAM as POOL
from tests.support.warm import call_pool

NO_SIZES = ["0", "00", "-1", "-0", "", " ", "wide", "80.5", "1e2", "+80", "²", "٨٠", "9" * 5000, "100000"]


@pytest.mark.parametrize("value", NO_SIZES)
@pytest.mark.parametrize("program", [LOADER, POOL], ids=["loader", "pool"])
def test_what_is_no_size_is_not_believed(program: Program, value: str, monkeypatch: Any, capsys: Any) -> None:
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, value)
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out
    assert not {"COLUMNS", "LINES", "TERMINAL_WIDTH"} & os.environ.keys()
    assert Console(width=None, file=None).width >= 1
    assert shutil.get_terminal_size().columns >= 1


@pytest.mark.parametrize("value", ["1", "80", "0120", "99999"])
def test_a_size_is_kept(value: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", value)
    assert POOL.main(["--version"]) == 0
    assert capsys.readouterr().out
    assert shutil.get_terminal_size().columns == int(value)


@pytest.mark.runs
@pytest.mark.parametrize("value", ["0", "-5", "wide", "²"])
def test_a_run_says_its_news_whatever_the_size(value: str, tmp_path: Any) -> None:
    """The line about preparing comes before all else; with a width of 0 rich shows nothing at all."""
    (tmp_path / "toy.toml").write_text(
        'task = "tests.support.toy"\ndata.source = "synthetic"\nmodel.num_features = 7\ntrain.steps = 1\n'
        f'run.dir = "{tmp_path}/run"\n'
    )
    done = call_pool("train", tmp_path / "toy.toml", environment={**os.environ, "COLUMNS": value, "LINES": value})
    assert f"run {tmp_path}/run: preparing" in done.stdout

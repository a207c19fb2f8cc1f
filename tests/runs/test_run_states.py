"""What the folder of a run says of it, alive, killed and stopped; and that the folder is all that a resume needs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sparsepool
from pool.checkpoint.state import read_state
from tests.support.paths import ROOT
from tests.support.processes import role_pid
from tests.support.runs import TOY, WholeRun, command, copied, run_well, steps_done
from tests.support.wait import wait_for
from tests.support.warm import call_pool

WHOLE = {**TOY, "train.steps": 60}
ENDLESS = {**TOY, "train.steps": 1_000_000, "train.checkpoint_every": 5}


@contextmanager
def started(line: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def status(run: Path) -> tuple[int, dict[str, Any]]:
    done = call_pool("status", run, "--json")
    return done.returncode, json.loads(done.stdout)


def test_a_run_is_running_crashed_stopped_and_finished_and_its_folder_resumes_it(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    line = command(run, ENDLESS)
    with started(line) as process:
        wait_for(lambda: steps_done(run) >= 7, "seven steps")
        code, found = status(run)
        assert (code, found["state"], found["exit_code"], found["restarts"]) == (3, "running", None, 0)
        assert found["step"] >= 7
        assert found["eta_seconds"] > 0
        os.kill(role_pid("worker", process.pid), signal.SIGKILL)
        wait_for(lambda: status(run)[1]["restarts"] == 1, "the restart is counted")
        process.kill()
        process.wait()
        code, found = status(run)
    assert (code, found["state"], found["exit_code"], found["restarts"]) == (1, "crashed", None, 1)
    assert sparsepool.Result(run).exit_code is None
    moved = tmp_path / "moved"
    run.rename(moved)
    Path(line[4]).unlink()  # the config
    done = steps_done(moved)
    with started([sys.executable, "-m", "pool", "train", "--resume", str(moved)]) as process:
        wait_for(lambda: steps_done(moved) > done + 3, "steps of the next life")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=280)
    assert out.splitlines()[-1] == f"to go on: python -m pool train --resume {moved}"
    code, found = status(moved)
    assert (code, found["state"], found["exit_code"], found["eta_seconds"]) == (4, "stopped", 143, None)
    assert sparsepool.Result(moved).exit_code == 143
    last = found["step"] + 3
    ended = call_pool("train", "--resume", moved, "--set", f"train.steps={last}")
    assert ended.returncode == 0
    assert f"changed since the last start: train.steps = {last} (was 1000000)\n" in ended.stdout
    code, found = status(moved)
    assert (code, found["state"], found["exit_code"], found["step"]) == (0, "finished", 0, last)


def test_a_run_that_fails_says_why_in_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = call_pool(*command(run, {**TOY, "loss.infinite_gradient_of_batch": 4, "train.on_bad_batch": "stop"})[3:])
    assert done.returncode == 1
    code, found = status(run)
    assert (code, found["state"], found["exit_code"]) == (1, "crashed", 1)
    assert found["reason"] == done.stderr.removeprefix("pool: ").rstrip("\n")
    assert sparsepool.Result(run).exit_code == 1


def test_a_refused_start_changes_nothing_that_the_folder_says(whole_run: WholeRun, tmp_path: Path) -> None:
    run = copied(whole_run(WHOLE), tmp_path / "run")
    before = status(run)
    for words in ([], ["--resume", "--set", "data.batch_size=65"], ["--resume", "--set", "train.steps=1"]):
        assert call_pool("train", run, *words).returncode == 2
    assert status(run) == before


@pytest.mark.parametrize("form", ["folder", "config"])
def test_what_a_run_began_with_is_kept_and_not_needed_again(form: str, whole_run: WholeRun, tmp_path: Path) -> None:
    first = copied(whole_run(WHOLE), tmp_path / "first")
    settings = {**TOY, "train.steps": 4}
    run_well(tmp_path / "run", settings, "--set", f"model.start_from={first}")
    shutil.rmtree(first)
    line = command(tmp_path / "run", settings)[4:] if form == "config" else [tmp_path / "run"]
    other = call_pool("train", *line, "--resume", "--set", "train.steps=8", "--set", "model.start_from=elsewhere")
    assert other.returncode == 0, other.stderr
    assert f"model.start_from = elsewhere does nothing in a run that is resumed: it began with {first}" in other.stdout
    done = call_pool("train", *line, "--resume", "--set", "train.steps=12")
    assert done.returncode == 0, done.stderr
    assert "changed since the last start: train.steps = 12 (was 8)\n" in done.stdout
    assert read_state(tmp_path / "run/checkpoints/last").config["model"]["start_from"] == str(first)
    assert json.loads((tmp_path / "run/config.json").read_text())["model"]["start_from"] == str(first)

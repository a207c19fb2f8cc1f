"""Runs whose numbers go elsewhere: the weights are those of a run that tells nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pool.errors import ConfigError
from pool.watch.contents import Watch
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.runs import TOY, Ended, WholeRun, command

LONG = {**TOY, "train.steps": 300}


def test_prometheus_sees_a_run_and_changes_no_bit_of_it(tmp_path: Path, whole_run: WholeRun) -> None:
    address = f"127.0.0.1:{free_port()}"
    seen: list[str] = []
    line = command(tmp_path / "run", {**LONG, "telemetry.prometheus": address})
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                seen.append(answer.read().decode())
    assert process.returncode == 0
    assert any("sparsepool_step " in each for each in seen)
    assert Ended(tmp_path / "run", 0, "", "").digest() == whole_run(LONG).digest()


def test_trackio_gets_a_run_and_its_resume_as_one_and_changes_no_bit(tmp_path: Path, whole_run: WholeRun) -> None:
    pytest.importorskip("trackio", reason="no package trackio (an extra, of 30 packages)")
    settings = {**TOY, "run.sinks": ["trackio"], "telemetry.project": "toys"}
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}
    for steps, more in ((6, ()), (12, ("--resume",))):
        line = command(tmp_path / "run", {**settings, "train.steps": steps}, *more)
        subprocess.run(line, cwd=ROOT, env=environment, check=True, capture_output=True)
    code = "import json, trackio; print(json.dumps(trackio.SQLiteStorage.get_logs('toys', 'run')))"
    told = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    history = json.loads(told.stdout.splitlines()[-1])
    assert {point["step"] for point in history} >= {6, 12}
    expected = {record["step"]: record["loss"] for record in whole_run(TOY).metrics() if "loss" in record}
    assert all(point["loss/train"] == expected[point["step"]] for point in history if "loss/train" in point)
    assert Ended(tmp_path / "run", 0, "", "").digest() == whole_run(TOY).digest()


def test_the_page_shows_why_a_worker_died_and_the_run_does_not_notice(tmp_path: Path, whole_run: WholeRun) -> None:
    line = command(tmp_path / "run", {**LONG, "testing.crash_points": ["worker.before_batch@50=kill"]})
    watch, looked = Watch([tmp_path]), list[dict[str, Any]]()
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(ConfigError):  # no run is in the folder yet
                looked += watch.look()["runs"]
    assert process.returncode == 0
    assert {run["state"] for run in looked} >= {"running"}
    (run,) = watch.look()["runs"]
    assert (run["state"], run["step"], run["restarts"]) == ("finished", 300, len(run["deaths"]))
    assert run["deaths"]
    assert {death["why"] for death in run["deaths"]} == {"it was killed by SIGKILL"}
    assert all("restarted" in death["then"] for death in run["deaths"])
    assert max(run["curves"]["steps"]["batches_ready"]) > 0
    assert run["curves"]["steps"]["step"] == list(range(1, 301))
    assert Ended(tmp_path / "run", 0, "", "").digest() == whole_run(LONG).digest()

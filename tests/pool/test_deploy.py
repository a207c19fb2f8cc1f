"""The supervisor script: it restarts what may succeed the next time, and nothing else."""

from __future__ import annotations

import configparser
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pool.test_endings import SLOW
from tests.support.runs import ROOT, TOY, command, steps_done
from tests.support.wait import wait_for

SCRIPT = ROOT / "deploy/supervisor.sh"
QUICK = {**TOY, "train.steps": 2, "pool.devices": ["fake:0"]}


def supervise(dir: Path, settings: dict[str, Any], before: str = "") -> subprocess.Popen[str]:
    """The script at work on a run in `dir`; each start runs the shell commands `before` first, $n being its number."""
    config = command(dir, settings)[-1]
    stub = dir.with_name("pool.sh")
    stub.write_text(
        f'echo start >> "$0.calls"\nn=$(wc -l < "$0.calls")\n{before}\nexec {sys.executable} -m pool "$@"\n'
    )
    return subprocess.Popen(
        ["sh", str(SCRIPT), config],
        cwd=ROOT,
        env={**os.environ, "POOL": f"sh {stub}", "PAUSE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def starts(dir: Path) -> int:
    return dir.with_name("pool.sh.calls").read_text().count("start")


def test_a_run_that_fails_is_started_again_until_it_is_done(tmp_path: Path) -> None:
    process = supervise(tmp_path / "run", QUICK, before='if [ "$n" -lt 3 ]; then exit 1; fi')
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert starts(tmp_path / "run") == 3
    assert err.count("the run ended with code 1; again in 0 s") == 2
    assert steps_done(tmp_path / "run") == 2
    assert (tmp_path / "run/checkpoints/last/state.json").stat().st_mode & 0o077 == 0, "umask"


@pytest.mark.parametrize(
    ("settings", "before", "code"),
    [({**QUICK, "train.steps": 0}, "", 2), (QUICK, "exec /nowhere/pool", 127)],
    ids=["a bad config", "no such command"],
)
def test_what_would_fail_again_is_not_started_again(
    settings: dict[str, Any], before: str, code: int, tmp_path: Path
) -> None:
    process = supervise(tmp_path / "run", settings, before)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert starts(tmp_path / "run") == 1


def test_sigterm_ends_the_run_with_a_checkpoint_and_the_script_with_it(tmp_path: Path) -> None:
    process = supervise(tmp_path / "run", SLOW)
    wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "finishing the step" in out
    assert starts(tmp_path / "run") == 1
    assert (tmp_path / "run/checkpoints/last").exists()


def test_without_a_config_it_says_how_it_is_used() -> None:
    done = subprocess.run(["sh", str(SCRIPT)], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 2
    assert "usage: supervisor.sh CONFIG" in done.stderr


def test_the_unit_resumes_and_does_not_restart_a_bad_config() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "deploy/sparsepool@.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith("--resume")
    assert service["RestartPreventExitStatus"] == "2 65"
    assert service["SuccessExitStatus"] == "130 143"
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    assert service["OOMPolicy"] == "continue"
    assert service["KillMode"] == "mixed"

"""Real runs that export numbered nets and have a command run with each: at least once, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pool.nets.record import NetState, read_record
from pool.supervisor.resources.logs import KEPT
from tests.support.paths import ROOT
from tests.support.runs import TOY, command, run_well
from tests.support.wait import wait_for

SETTINGS: dict[str, Any] = {**TOY, "train.export_every": 4, "train.keep_checkpoints": 1}
NAMES = [f"step-{step:09d}" for step in (4, 8)]


def trying(folder: Path, *gate: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    program = ["-m", "tests.support.programs.tried_net", "{net}", "{step}", str(folder), *gate]
    return {"train.on_export": [sys.executable, *program]}


def calls(folder: Path) -> list[list[str]]:
    path = folder / "calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_each_net_is_exported_and_tried_whatever_dies(tmp_path: Path) -> None:
    """Of an ensemble each member's; the last ones too, for which the run waits. Of a path nothing is replaced."""
    points = ["coordinator.checkpoint_begun@1=kill", "coordinator.after_commit@7=kill"]
    settings = {**SETTINGS, **trying(tmp_path / "try"), "train.steps": 8, "ensemble.members": 2}
    settings |= {"testing.crash_points": points}
    ended = run_well(tmp_path / "{step}", {**settings, "pool.snapshot_steps": 1})
    assert ended.out.count("coordinator (incarnation 1) was killed") == 1
    assert "all steps are done; waiting for" in ended.out
    names = [f"{name}.member-{m}" for name in NAMES for m in range(2)]
    assert [call[0] for call in calls(tmp_path / "try")] == names
    assert all(call[2] == "True" for call in calls(tmp_path / "try"))
    assert sorted(path.name for path in (ended.dir / "nets").iterdir()) == ["record.jsonl", *names]
    assert read_record(ended.dir) == dict.fromkeys((4, 8), NetState.DONE)
    found = [entry for entry in ended.metrics() if "net_elo" in entry]
    assert [(e["step"], e["net_elo"], e["net_games"]) for e in found] == [(4, 0.4, 2.0), (8, 0.8, 2.0)]
    assert found[0]["members"]["net_elo"] == [0.4, 0.4]
    assert [path.name for path in (ended.dir / "checkpoints").iterdir() if path.name != "last"] == [NAMES[-1]]


def test_a_command_ends_with_the_run_and_is_run_again_by_the_next(tmp_path: Path) -> None:
    """By a supervisor that is killed, and by one that is told to stop while it waits for the last net."""
    folder = tmp_path / "try"
    settings = {**SETTINGS, **trying(folder, "4"), "train.steps": 8}

    def started(*arguments: str) -> subprocess.Popen[str]:
        line = command(tmp_path / "run", settings, *arguments)
        return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with started() as killed:
        wait_for(lambda: len(calls(folder)) == 1, "the command waits")
        killed.kill()
    wait_for(lambda: not Path("/proc", calls(folder)[-1][1]).exists(), "the command's end")
    assert read_record(tmp_path / "run")[4] is NetState.WRITTEN
    with started("--resume") as stopped:
        assert stopped.stdout is not None
        wait_for(lambda: len(calls(folder)) == 2, "the command waits again")
        assert any("waiting for 2 nets" in line for line in iter(stopped.stdout.readline, ""))
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(60) == 130
    wait_for(lambda: not Path("/proc", calls(folder)[-1][1]).exists(), "the command's end")
    (folder / "go").touch()
    ended = run_well(tmp_path / "run", settings, "--resume")
    assert [call[0] for call in calls(folder)] == [NAMES[0], NAMES[0], NAMES[0], NAMES[1]]
    assert [(e["step"], e["net_elo"]) for e in ended.metrics() if "net_elo" in e] == [(4, 0.4), (8, 0.8)]


def test_a_command_that_says_much_and_fails_is_told_in_a_line_and_training_goes_on(tmp_path: Path) -> None:
    fails = [sys.executable, "-c", f"import sys; print('{'.' * 99}\\n' * {KEPT // 20}); sys.exit('no engine')"]
    settings = {**SETTINGS, "train.on_export": fails, "train.export_every": 2, "train.steps": 4}
    ended = run_well(tmp_path / "run", {**settings, "train.average.kind": "ema", "train.average.start": 5})
    for step in (2, 4):
        assert f"train.on_export with the net of step {step}: exit code 1: no engine; training goes on\n" in ended.out
    assert read_record(ended.dir) == {2: NetState.DONE, 4: NetState.DONE}
    assert (ended.dir / "logs/on_export.log").read_text() == "no engine\n" * 2
    assert 0 < (ended.dir / "logs/on_export.out.log").stat().st_size <= 2 * KEPT
    assert "train.average.start is 5 and train.steps 4: there will be no averaged weights\n" in ended.out


def test_a_program_that_is_not_there_is_one_line() -> None:
    become = [sys.executable, "-m", "pool.process.become", str(os.getpid())]
    done = subprocess.run([*become, "/no/such/program"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (127, "/no/such/program: No such file or directory\n")

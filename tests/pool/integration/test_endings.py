"""How runs end when they are told to, or when a process of theirs is killed from outside."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.config.schedule import MOST_STEPS
from tests.support.processes import children, role_pid
from tests.support.runs import ROOT, TOY, Ended, WholeRun, command, pids_of, run_well, steps_done
from tests.support.wait import wait_for

WHOLE = {**TOY, "train.steps": 60}
SLOW = {**WHOLE, "pool.devices": ["fake:0?compute_ms=20", "fake:1?compute_ms=20"]}


@contextmanager
def started(dir: Path, settings: dict[str, object]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(dir, settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def finish(process: subprocess.Popen[str], dir: Path) -> Ended:
    out, err = process.communicate(timeout=280)
    return Ended(dir, process.returncode, out, err)


def test_ctrl_c_writes_a_checkpoint_and_a_resumed_run_ends_with_the_same_bits(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    with started(tmp_path / "cut", SLOW) as process:
        wait_for(lambda: steps_done(tmp_path / "cut") >= 5, "five steps")
        pids = list(children(process.pid))
        process.send_signal(signal.SIGINT)
        ended = finish(process, tmp_path / "cut")
    assert ended.code == 130, ended.err
    assert "finishing the step" in ended.out
    assert gone(pids)
    assert 5 <= steps_done(tmp_path / "cut") < 60
    shown = ended.out.splitlines()[-1]
    assert shown == f"to go on: python -m pool train --resume {tmp_path / 'cut'}"
    subprocess.run([sys.executable, *shlex.split(shown)[4:]], cwd=ROOT, check=True, capture_output=True, timeout=110)
    assert ended.digest() == whole_run(WHOLE).digest()


def test_the_longest_run_reports_and_ends_by_signal(tmp_path: Path) -> None:
    longest = {**TOY, "train.steps": MOST_STEPS}
    with started(tmp_path / "run", longest) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 5, "five steps")
        process.send_signal(signal.SIGTERM)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 143, ended.err
    assert ended.err == ""
    assert f"/{MOST_STEPS}  " in ended.out
    assert (tmp_path / "run/checkpoints/last/state.json").exists()


def test_a_closed_terminal_writes_a_checkpoint(tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and every line written from then on is an error."""
    arguments = command(tmp_path / "run", {**SLOW, "train.steps": 2000})
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup, which a run respects
        os.chdir(ROOT)
        os.execv(arguments[0], arguments)
    try:
        wait_for(lambda: steps_done(tmp_path / "run") >= 3, "three steps")
    finally:
        os.close(terminal)
    wait_for(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None, "the run's end")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    assert (tmp_path / "run/checkpoints/last/weights.safetensors").exists()


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path: Path) -> None:
    with started(tmp_path / "run", TOY) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
    assert (tmp_path / "run/checkpoints/last/weights.safetensors").exists()


def test_ctrl_c_before_the_first_process_ends_the_run_at_once(tmp_path: Path) -> None:
    with started(tmp_path / "run", SLOW) as process:
        wait_for(lambda: len(children(process.pid)) == 1, "the fork server")
        process.send_signal(signal.SIGINT)
        ended = finish(process, tmp_path / "run")
    assert (ended.code, ended.err) == (130, "pool: stopped before the first step\n")
    assert not (tmp_path / "run/config.json").exists()
    assert not list(tmp_path.glob("run/checkpoints/*"))


def test_a_killed_feeder_is_replaced_and_one_that_dies_with_the_fork_server_waits_for_the_next(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    """The ring has 6 slots, so there is another feeder when 12 steps of two batches are done."""
    with started(tmp_path / "run", SLOW) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 3, "three steps")
        os.kill(role_pid("feeder", process.pid), signal.SIGKILL)
        wait_for(lambda: steps_done(tmp_path / "run") >= 12, "twelve steps")
        for role in ("forkserver", "feeder"):
            os.kill(role_pid(role, process.pid), signal.SIGKILL)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 0, ended.err
    assert "fork server (incarnation 1) was killed by SIGKILL; restarted" in ended.out
    for incarnation in (1, 2):
        assert f"feeder (incarnation {incarnation}) was killed by SIGKILL; restarted" in ended.out
    assert ended.digest() == whole_run(WHOLE).digest()


def test_nobody_is_taken_for_stuck_who_has_nothing_to_do(tmp_path: Path) -> None:
    """The fork server is silent unless it is asked."""
    settings = {
        **SLOW,
        "train.steps": 200,
        "pool.hang_timeout": 2.0,
        "testing.crash_points": ["feeder.batch_taken@9=kill"],
    }
    ended = run_well(tmp_path / "run", settings)
    assert "feeder (incarnation 1) was killed" in ended.out
    assert "killing it" not in ended.out


@pytest.mark.parametrize("checkpoint_every", [4, 0])
def test_a_killed_coordinator_is_replaced_and_changes_nothing(
    checkpoint_every: int, whole_run: WholeRun, tmp_path: Path
) -> None:
    """I9: its successor goes on as a resumed run does, from the last checkpoint or from the start."""
    settings = {**SLOW, "train.checkpoint_every": checkpoint_every}
    with started(tmp_path / "run", settings) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 6, "six steps")
        pids = list(children(process.pid))
        os.kill(role_pid("coordinator", process.pid), signal.SIGKILL)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 0, ended.err
    assert "coordinator (incarnation 1) was killed by SIGKILL; restarted" in ended.out
    assert gone(pids)
    assert ended.digest() == whole_run(WHOLE).digest()
    assert [record["step"] for record in ended.metrics()] == list(range(1, 61))


@pytest.mark.parametrize("repaired", [True, False])
def test_a_checkpoint_that_cannot_be_written_ends_the_run_only_if_it_is_the_last(
    repaired: bool, tmp_path: Path
) -> None:
    """The run says so and trains to the end all the same."""
    run, folder = tmp_path / "run", tmp_path / "run/checkpoints"
    with started(run, {**SLOW, "train.checkpoint_every": 20}) as process:
        wait_for(lambda: steps_done(run) >= 2, "two steps")
        folder.write_text("in the way")
        wait_for(lambda: steps_done(run) >= 40, "forty steps")
        if repaired:
            folder.unlink()
        ended = finish(process, run)
    assert f"checkpoint of step 20 can't be written: {folder}: File exists; there is none yet" in ended.out
    assert steps_done(run) == 60
    if repaired:
        assert ended.code == 0, ended.err
        assert (folder / "last").resolve().name == "step-000000060"
    else:
        assert ended.code == 1
        assert ended.err.startswith("pool: checkpoint of step 60 can't be written")
        assert len(ended.err.splitlines()) == 1


def test_when_the_supervisor_is_killed_everybody_is_gone(tmp_path: Path) -> None:
    """I6: nothing is left that would have to be cleaned up."""
    with started(tmp_path / "run", SLOW) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
        pids = list(children(process.pid))
        assert len(pids) == 5
        assert {process.pid, *pids} == set(pids_of(tmp_path / "run"))
        process.kill()
        process.wait(60)
        wait_for(lambda: gone(pids), "children gone")

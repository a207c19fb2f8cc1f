"""How runs end when they are told to, or when a process of theirs is killed from outside."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from loader.exit_codes import EXIT_UNAVAILABLE
from pool.config.load import parse_config
from pool.config.schedule import MAX_STEPS
from pool.supervisor.outcome import collect_outcome, run_end_program
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.signals import StopSignals
from tests.support.paths import ROOT
from tests.support.processes import children, role_pid, roles
from tests.support.runs import TOY, Ended, WholeRun, command, pids_of, run, run_well, steps_done
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


@contextmanager
def held_at(
    step: int, dir: Path, settings: dict[str, object], *points: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run, and its coordinator, which has stopped itself after that step: however late the test comes by, the run is
    no further. SIGCONT lets it go on."""
    settings = {**SLOW, **settings, "testing.crash_points": [f"coordinator.after_commit@{step}=stop", *points]}
    with started(dir, settings) as process:
        wait_for(lambda: steps_done(dir) >= step - 1 and is_stopped("coordinator", process.pid), "the step")
        yield process, role_pid("coordinator", process.pid)


def is_stopped(role: str, parent: int) -> bool:
    for pid, its in roles(parent).items():
        if its == role:
            return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    return False


def gone(pids: list[int]) -> bool:
    """Tells whether all have ended. An orphan that has may still wait for the machine's init to ask for it."""
    return all(state_of(pid) in ("", "Z", "X") for pid in pids)


def state_of(pid: int) -> str:
    """Returns the letter that the kernel has for it; empty if there is none of that number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat.rpartition(")")[2].split()[0]


def finish(process: subprocess.Popen[str], dir: Path) -> Ended:
    out, err = process.communicate(timeout=280)
    return Ended(dir, process.returncode, out, err)


def test_ctrl_c_writes_a_checkpoint_and_a_resumed_run_ends_with_the_same_bits(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    with held_at(5, tmp_path / "cut", {}) as (process, coordinator):
        pids = list(children(process.pid))
        process.send_signal(signal.SIGINT)
        until(process, "finishing the step")
        os.kill(coordinator, signal.SIGCONT)
        ended = finish(process, tmp_path / "cut")
    assert ended.code == 130, ended.err
    assert gone(pids)
    assert 5 <= steps_done(tmp_path / "cut") <= 6
    shown = ended.out.splitlines()[-1]
    assert shown == f"to go on: python -m pool train --resume {tmp_path / 'cut'}"
    again = [
        sys.executable,
        *shlex.split(shown)[4:],
        "--set",
        "testing.crash_points=[]",
    ]  # else it would stop once more
    subprocess.run(again, cwd=ROOT, check=True, capture_output=True, timeout=110)
    assert ended.digest() == whole_run(WHOLE).digest()


def test_the_longest_run_reports_and_ends_by_signal(tmp_path: Path) -> None:
    longest = {**TOY, "train.steps": MAX_STEPS}
    with started(tmp_path / "run", longest) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 5, "five steps")
        process.send_signal(signal.SIGTERM)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 143, ended.err
    assert ended.err == ""
    assert f"/{MAX_STEPS}  " in ended.out
    assert (tmp_path / "run/checkpoints/last/state.json").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGXCPU], ids=lambda number: number.name)
def test_a_batch_system_signals_all_processes_and_one_answers(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path / "run", {**TOY, "train.steps": MAX_STEPS}) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 5, "five steps")
        for pid in [*pids_of(tmp_path / "run"), process.pid]:
            os.kill(pid, number)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 128 + number, ended.err
    assert "incarnation 1) was killed" not in ended.out
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
    settings = {**SLOW, "testing.crash_points": ["forkserver.before_ready=stop"]}
    with started(tmp_path / "run", settings) as process:
        wait_for(lambda: is_stopped("forkserver", process.pid), "the fork server")
        process.send_signal(signal.SIGINT)
        ended = finish(process, tmp_path / "run")
    assert (ended.code, ended.err) == (130, "pool: stopped before the first step\n")
    assert not (tmp_path / "run/config.json").exists()
    assert not list(tmp_path.glob("run/checkpoints/*"))


def test_a_killed_feeder_is_replaced_and_one_that_dies_with_the_fork_server_waits_for_the_next(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    """The ring has 6 slots, so there is another feeder when 12 steps of two batches are done."""
    with held_at(12, tmp_path / "run", {}, "feeder.batch_taken@9=kill") as (process, coordinator):
        for role in ("forkserver", "feeder"):
            os.kill(role_pid(role, process.pid), signal.SIGKILL)
        os.kill(coordinator, signal.SIGCONT)
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
    settings: dict[str, object] = {"train.checkpoint_every": checkpoint_every}
    with held_at(6, tmp_path / "run", settings) as (process, coordinator):
        pids = list(children(process.pid))
        os.kill(coordinator, signal.SIGKILL)
        ended = finish(process, tmp_path / "run")
    assert ended.code == 0, ended.err
    assert "coordinator (incarnation 1) was killed by SIGKILL; restarted" in ended.out
    assert gone(pids)
    assert ended.digest() == whole_run(WHOLE).digest()
    assert [record["step"] for record in ended.metrics()] == list(range(1, 61))


def until(process: subprocess.Popen[str], text: str) -> str:
    """Reads the run's lines up to the first that has `text`."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"the run has ended without {text!r}:\n{''.join(seen)}")


def signal_until_it_ends(process: subprocess.Popen[str]) -> None:
    """As a person does: signals that come too close to each other count as one."""
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)


@contextmanager
def without_room(dir: Path, settings: dict[str, object]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run whose checkpoints can't be written any more after its fifth step; the file that is in their way."""
    with held_at(5, dir, {**settings, "train.checkpoint_every": 0}) as (process, coordinator):
        (dir / "checkpoints").write_text("in the way")
        os.kill(coordinator, signal.SIGCONT)
        yield process, dir / "checkpoints"


@pytest.mark.parametrize("stopped", [False, True], ids=["all steps are done", "a signal"])
@pytest.mark.parametrize("repaired", [True, False], ids=["room is made", "given up"])
def test_the_last_checkpoint_waits_until_it_can_be_written(repaired: bool, stopped: bool, tmp_path: Path) -> None:
    """Also where a signal has come: what the run has in memory is nowhere else."""
    dir = tmp_path / "run"
    with without_room(dir, {"train.steps": MAX_STEPS if stopped else 12}) as (process, in_the_way):
        if stopped:
            process.send_signal(signal.SIGTERM)
        waits = until(process, "can't be written")
        assert f"{in_the_way}: File exists; there is none yet; the run keeps it in memory and tries again" in waits
        if repaired:
            in_the_way.unlink()
        else:
            signal_until_it_ends(process)
        ended = finish(process, dir)
    assert ended.err == ""
    if repaired:
        assert ended.code == (143 if stopped else 0)
        assert (in_the_way / "last").exists()
    else:  # a signal more may have come when it no longer listened
        assert ended.code in (143, -signal.SIGTERM)
        assert "stopped at once; nothing more is saved" in ended.out


@pytest.mark.parametrize("how", ["finished", "stopped", "failed"])
def test_the_outcome_is_told_to_the_users_program(how: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    settings = {**TOY, "train.steps": 4, "train.on_end": [sys.executable, "-c", WRITE, str(told)]}
    if how == "stopped":
        settings |= {"train.steps": MAX_STEPS}
    if how == "failed":
        settings |= {"data.validation": [str(tmp_path / "*.binpack")]}
    if how == "stopped":
        with started(tmp_path / "run", settings) as process:
            wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
            process.send_signal(signal.SIGINT)
            ended = finish(process, tmp_path / "run")
    else:
        ended = run(tmp_path / "run", settings)
    found = json.loads(told.read_text())
    assert (found["outcome"], found["exit_code"]) == (how, ended.code)
    assert ended.err == ("" if found["reason"] is None else f"pool: {found['reason']}\n")
    assert (found["run"], found["steps"]) == (str(tmp_path / "run"), settings["train.steps"])
    assert (found["resume"] is None) == (how == "finished")
    if how == "failed":
        assert (ended.code, found["step"], found["checkpoint"]) == (EXIT_UNAVAILABLE, 0, None)
    else:
        assert found["checkpoint"] == str((tmp_path / "run/checkpoints/last").resolve())
        assert found["checkpoint"].endswith(f"step-{found['step']:09d}")
        assert found["loss"] > 0
    assert "train.on_end" not in ended.out


WRITE = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"


def test_a_program_that_fails_is_a_line_and_changes_no_exit_code(tmp_path: Path) -> None:
    settings = {**TOY, "train.steps": 2, "train.on_end": [sys.executable, "-c", "import sys; sys.exit('no network')"]}
    assert run_well(tmp_path / "run", settings).out.endswith("train.on_end: exit code 1: no network\n")


def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    config = parse_config({"task": "clicks", "run": {"dir": str(tmp_path / "run")}}, "test")
    folder = RunFolder(config, resume=False)
    outcome = collect_outcome(config, folder, None, 0, "", None)
    said: list[str] = []
    with StopSignals() as signals:
        run_end_program(["sleep", "3600"], outcome, folder, signals, said.append, timeout=0.1)
    folder.close()
    assert said == ["train.on_end: it has not ended within 0 s: killed"]


@pytest.mark.parametrize("umask", [0o000, 0o027])
def test_others_read_a_run_as_far_as_the_umask_lets_them_and_write_nothing(umask: int, tmp_path: Path) -> None:
    settings = {**TOY, "train.export_every": 4, "train.steps": 4, "run.trace": str(tmp_path / "trace.json")}
    arguments = command(tmp_path / "run", {**settings, "testing.history": True})
    subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True, timeout=110, umask=umask)
    paths = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    assert len(paths) > 15
    for path in filter(lambda path: not path.is_symlink(), paths):
        mode = path.stat().st_mode & 0o777
        assert mode == (0o755 if path.is_dir() else 0o644) & ~umask, path


def test_when_the_supervisor_is_killed_everybody_is_gone(tmp_path: Path) -> None:
    """I6: nothing is left that would have to be cleaned up."""
    with started(tmp_path / "run", {**SLOW, "train.steps": MAX_STEPS}) as process:
        wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
        pids = list(children(process.pid))
        assert len(pids) == 5
        assert {process.pid, *pids} == set(pids_of(tmp_path / "run"))
        process.kill()
        process.wait(60)
        wait_for(lambda: gone(pids), "children gone")

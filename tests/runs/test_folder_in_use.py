"""A run whose folder is moved or deleted under it, and whose processes have helpers of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pool.process import prctl
from pool.supervisor.processes.reaper import Orphans
from tests.chaos.oracle import check_nothing_left_outside, left_outside
from tests.runs.test_endings import SLOW, WHOLE, finish, gone, held_at, started
from tests.support.paths import ROOT
from tests.support.processes import children, role_pid
from tests.support.runs import TOY, Ended, WholeRun, command, pids_of, steps_done
from tests.support.wait import wait_for

SETTINGS = {**SLOW, "train.checkpoint_every": 8, "pool.snapshot_steps": 4}


def moved_and_replaced(run: Path) -> Path:
    run.rename(run.with_name("moved"))
    run.mkdir()
    return run.with_name("moved")


def deleted(run: Path) -> Path:
    inode = run.stat().st_ino
    with suppress(FileNotFoundError):
        while run.stat().st_ino == inode:  # something may be made while the rest is deleted
            shutil.rmtree(run, ignore_errors=True)
    return run


def emptied(run: Path) -> Path:
    """Without `lock` alone it would not be empty."""
    for path in [run / "config.json", run / "lock", *run.iterdir()]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return run


def without_logs(run: Path) -> Path:
    shutil.rmtree(run / "logs")
    return run


@pytest.mark.parametrize("harm", [moved_and_replaced, deleted, emptied, without_logs])
def test_a_run_outlives_what_happens_to_its_folder_and_deaths_after_it(
    harm: Callable[[Path], Path], whole_run: WholeRun, tmp_path: Path
) -> None:
    outside = left_outside()
    with held_at(10, tmp_path / "run", SETTINGS) as (process, _):
        now = harm(tmp_path / "run")
        for role in ("worker", "feeder", "coordinator"):
            victim = role_pid(role, process.pid)
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda: victim not in children(process.pid), "its death")  # noqa: B023
        ended = finish(process, now)
    assert (ended.code, ended.err) == (0, "")
    assert ended.digest() == whole_run(WHOLE).digest()
    assert ended.metrics()[-1]["step"] == 60
    assert (now / "logs/worker-0.log").exists()
    assert ("was deleted; it is made again" in ended.out) == (harm is deleted)
    assert ("was emptied; training goes on" in ended.out) == (harm is emptied)
    assert (now / "config.json").exists()
    assert "/proc/" not in ended.out
    assert f"to export it: python -m pool export {now}/checkpoints/last " in ended.out
    if harm is moved_and_replaced:
        assert not list((tmp_path / "run").iterdir())
    assert not pids_of(now)
    check_nothing_left_outside(outside)


def test_a_folder_deleted_just_before_the_end_holds_the_final_checkpoint(tmp_path: Path) -> None:
    settings = {**TOY, "testing.crash_points": ["coordinator.checkpoint_begun=stop"]}
    with started(tmp_path / "run", settings) as process:
        wait_for(lambda: any((tmp_path / "run").glob("checkpoints/.step-*.tmp")), "the final checkpoint")
        shutil.rmtree(tmp_path / "run")
        os.kill(role_pid("coordinator", process.pid), signal.SIGCONT)
        ended = finish(process, tmp_path / "run")
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "run/checkpoints/last/weights.safetensors").exists()


def test_an_end_says_first_what_no_checkpoint_has(tmp_path: Path) -> None:
    """Here a crash loop's account, with which it would be the second thing to know."""
    settings = {
        **TOY,
        "train.checkpoint_every": 8,
        "pool.restarts": 1,
        "model.deadly_batch": 21,
        "pool.devices": ["cpu"],
    }
    settings["testing.crash_points"] = ["worker.before_finish@19=exit"]
    with started(tmp_path / "run", settings) as process:
        ended = finish(process, tmp_path / "run")
    assert ended.code != 0
    (line,) = [line for line in ended.out.splitlines() if "in no checkpoint" in line]
    assert re.fullmatch("steps [19] to 10 are in no checkpoint; --resume does them again", line), line


def start_with_helpers(tmp_path: Path, steps: int) -> subprocess.Popen[str]:
    (tmp_path / "helpers").mkdir()
    settings = {**SLOW, "task": "tests.support.tasks.forking_task", "train.steps": steps}
    return subprocess.Popen(
        command(tmp_path / "run", settings),
        cwd=ROOT,
        env={**os.environ, "HELPERS": str(tmp_path / "helpers")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def helpers(tmp_path: Path) -> list[int]:
    return [int(path.name) for path in (tmp_path / "helpers").iterdir()]


def test_what_a_task_has_forked_ends_with_the_run(tmp_path: Path) -> None:
    """Three helpers each of planner, coordinator and two workers, in their groups or not."""
    process = start_with_helpers(tmp_path, 12)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err
    assert len(helpers(tmp_path)) == 12
    assert gone(helpers(tmp_path))
    assert Ended(tmp_path / "run", 0, out, err).digest()


def test_what_a_task_has_forked_ends_with_a_killed_worker_and_a_killed_run(tmp_path: Path) -> None:
    """But for daemons, whose parent has ended by itself: those stay when the supervisor is killed."""
    process = start_with_helpers(tmp_path, 2000)
    wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
    worker = role_pid("worker", process.pid)
    (in_group,) = [pid for pid in children(worker) if os.getpgid(pid) == worker]
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: gone([worker, in_group]), "the worker and its helper")
    pids = [*children(process.pid), *(child for pid in children(process.pid) for child in children(pid))]
    mortal = [pid for pid in pids if not is_daemon(pid)]
    process.kill()
    process.communicate()
    wait_for(lambda: gone(mortal), "everybody gone")
    for pid in {*helpers(tmp_path)} - {*mortal}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_daemon(pid: int) -> bool:
    """It leads no session of its own though it has left the one it began in."""
    try:
        return os.getsid(pid) not in (pid, os.getsid(0))
    except ProcessLookupError:
        return False


SPAWN = """
import subprocess, sys
subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000"])
subprocess.Popen(["sh", "-c", "setsid sleep 1000 & exit"]).wait()
"""


def test_orphans_are_found_with_their_descendants_and_others_are_spared() -> None:
    other = subprocess.Popen(["sleep", "1000"])
    before = children(os.getpid())  # what other tests have started may be among them
    prctl.adopt_orphans()
    try:
        orphans = Orphans()
        subprocess.run([sys.executable, "-c", SPAWN], check=True)
        wait_for(lambda: len(children(os.getpid())) >= len(before) + 2, "orphans")
        orphans.end(20.0)
        assert children(os.getpid()) == before
        assert other.pid in before
    finally:
        prctl.adopt_orphans(wanted=False)
        other.kill()
        other.wait()

"""The supervisor's decisions: restarts, stopping, what is said of deaths, what the service manager hears."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_FAILED
from pool.exchange.choice import Exchange, after_loss
from pool.process.failure import Failure, crash_place
from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, WORKER, Peer
from pool.supervisor.deaths import Death, account
from pool.supervisor.holding.signals import StopSignals
from pool.supervisor.holding.system_memory import oom_kills
from pool.supervisor.policy import PAUSES, RestartPolicy
from pool.supervisor.service import ServiceManager
from pool.supervisor.stopping import Ending, StopPlan

WORKER_0 = Peer(WORKER, 0)


def test_each_further_death_without_progress_waits_longer_until_the_budget_is_spent() -> None:
    policy = RestartPolicy(budget=6)
    decisions = [policy.died(WORKER_0) for _ in range(7)]
    assert [decision.pause for decision in decisions[:6]] == [*PAUSES, PAUSES[-1]]
    assert [decision.restart for decision in decisions] == [True] * 6 + [False]
    assert "it died 7 times without a step done (pool.restarts = 6)" in decisions[-1].why
    assert policy.died(Peer(FEEDER)).restart, "every place has a budget of its own"


def test_a_step_done_makes_the_budget_whole_again() -> None:
    policy = RestartPolicy(budget=1)
    policy.progress(3)
    assert policy.died(WORKER_0).restart
    policy.progress(3)  # heard again: no progress
    assert not policy.died(WORKER_0).restart
    policy.progress(4)
    assert policy.died(WORKER_0).restart


def raising(signature: str = "ValueError task.py:3, in f", *, started: bool = True) -> Failure:
    return Failure("ValueError: bad (task.py:3, in f)", EXIT_FAILED, started, signature)


def test_one_that_gives_up_while_starting_is_not_started_again() -> None:
    decision = RestartPolicy(budget=5).died(WORKER_0, raising(started=False))
    assert (decision.restart, decision.exit_code) == (False, EXIT_FAILED)


def test_an_exception_that_comes_again_in_the_next_incarnation_ends_the_run() -> None:
    """What obviously repeats is not tried `pool.restarts` times."""
    policy = RestartPolicy(budget=5)
    assert policy.died(Peer(COORDINATOR), raising()).restart
    assert policy.died(Peer(FEEDER), raising()).restart, "of another process"
    assert policy.died(Peer(COORDINATOR), raising("KeyError elsewhere")).restart
    decision = policy.died(Peer(COORDINATOR), raising("KeyError elsewhere"))
    assert (decision.restart, decision.exit_code) == (False, EXIT_FAILED)


def test_an_exception_is_a_new_one_after_a_step_done() -> None:
    policy = RestartPolicy(budget=5)
    assert policy.died(Peer(COORDINATOR), raising()).restart
    policy.progress(1)
    assert policy.died(Peer(COORDINATOR), raising()).restart


def test_exceptions_that_differ_are_a_crash_loop_in_the_end() -> None:
    policy = RestartPolicy(budget=2)
    decisions = [policy.died(Peer(FEEDER), raising(str(number))) for number in range(3)]
    assert [decision.restart for decision in decisions] == [True, True, False]
    assert decisions[-1].exit_code == EXIT_CRASH_LOOP


def test_a_batch_that_raises_is_the_coordinators_to_judge() -> None:
    """With many bad batches in a step a worker dies often, and nothing is wrong with the worker."""
    policy = RestartPolicy(budget=0)
    for _ in range(9):
        decision = policy.died(WORKER_0, raising(), batch=3)
        assert (decision.restart, decision.pause) == (True, 0.0)
        assert "once more" not in decision.why, "that is for the coordinator to say"
    assert not policy.died(WORKER_0, batch=3).restart, "a death without exception counts"


def test_one_that_nobody_waits_for_is_tried_again_however_often_that_fails() -> None:
    policy = RestartPolicy(budget=0)
    for _ in range(3):
        decision = policy.died(Peer(FORKSERVER), needed=False)
        assert (decision.restart, decision.pause) == (True, PAUSES[-1])
    assert not policy.died(Peer(FORKSERVER)).restart


def test_the_first_signal_finishes_the_step_the_second_ends_the_run() -> None:
    plan = StopPlan(timeout=10)
    said = [(plan.signals(*looked), plan.ending) for looked in ((0, 0.0), (1, 1.0), (1, 2.0), (2, 3.0), (3, 20.0))]
    assert [ending for _, ending in said] == [
        Ending.NOT_ASKED,
        Ending.FINISHING,
        Ending.FINISHING,
        Ending.NOW,
        Ending.NOW,
    ]
    first, second = [why for why, _ in said if why]  # each is said once
    assert first.startswith("stopping: finishing the step")
    assert second == "stopped at once; nothing more is saved"


def test_two_signals_at_once_are_one() -> None:
    """`timeout` signals the process, and then its group."""
    with StopSignals() as signals:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.count == 1
        assert signals.exit_code == 128 + signal.SIGTERM
        signals._last -= 1.0
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.count == 2


def test_a_hang_up_that_was_to_be_ignored_is() -> None:
    """`nohup pool train`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.count == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_finishing_the_step_has_a_deadline() -> None:
    plan = StopPlan(timeout=10)
    plan.signals(1, 0.0)
    assert plan.signals(1, 10.0) == ""
    assert "pool.stop_timeout = 10 s" in plan.signals(1, 10.1)
    assert plan.ending is Ending.NOW


def death(incarnation: int, **changes: object) -> Death:
    facts = {
        "how": "was killed by SIGKILL",
        "killed_since": "",
        "out_of_memory": False,
        "batch": None,
        "last_lines": "",
    }
    return Death(Peer(WORKER, 1, incarnation), **{**facts, **changes})  # type: ignore[arg-type]


def test_a_death_is_told_with_who_how_and_what_it_held() -> None:
    assert death(2, batch=17).line() == "worker 1 (incarnation 2) was killed by SIGKILL, it was computing batch 17"


DUMP = """\
a line of before
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/selectors.py", line 9 in select

Current thread 0x00007f02 (most recent call first):
  File "/venv/torch/_tensor.py", line 40 in wrapped
  File "/home/me/my_task.py", line 12 in loss
  File "/venv/pool/worker/step.py", line 90 in train

Extension modules: numpy (total: 1)
"""


@pytest.mark.parametrize(
    ("log", "place"),
    [
        (DUMP, "loss (/home/me/my_task.py:12)"),
        (DUMP.replace("Segmentation fault", "Aborted"), ""),
        (DUMP.partition("Current")[0], ""),
        ("", ""),
        (DUMP[: DUMP.index("/home")], ""),
    ],
    ids=["whole", "another signal", "cut off", "empty", "within torch alone"],
)
def test_the_line_that_a_crash_struck_is_found_in_the_log(log: str, place: str) -> None:
    assert crash_place(log) == place


def test_a_crash_in_a_worker_is_told_with_its_place_and_what_may_be_the_cause() -> None:
    line = death(1, how="was killed by SIGSEGV", crashed_in="loss (task.py:3)").line()
    assert line == (
        "worker 1 (incarnation 1) was killed by SIGSEGV in loss (task.py:3), as a task does that changes weights in "
        "place: workers may only read them, after_step may"
    )


def test_an_exception_is_told_instead_of_an_exit_code_with_the_place_of_the_traceback() -> None:
    raised = death(1, raised="ValueError: bad (task.py:3, in f)", log=Path("logs/worker-1.log"), last_lines="Trace")
    assert raised.line() == (
        "worker 1 (incarnation 1) raised ValueError: bad (task.py:3, in f), traceback in logs/worker-1.log"
    )
    assert account([raised]) == raised.line()


def test_a_kill_for_want_of_memory_names_what_to_lower_unless_it_was_our_own() -> None:
    assert "want of memory" in death(1, out_of_memory=True).line()
    assert "lower data.batch_size" in death(1, out_of_memory=True).line()
    assert "memory" not in death(1, out_of_memory=True, killed_since="hung").line()


def test_the_account_at_the_end_has_every_death_newest_first_and_its_last_lines() -> None:
    lines = account([death(1), death(2, batch=5), death(3, last_lines="a line\nanother")]).splitlines()
    assert lines[0].startswith("worker 1 (incarnation 3)")
    assert lines[1:3] == ["a line", "another"]
    assert lines[3].startswith("before that: worker 1 (incarnation 2)")
    assert lines[4].startswith("before that: worker 1 (incarnation 1)")


@pytest.mark.parametrize(
    ("cgroup", "mounts", "file", "text"),
    [
        ("0::/a", "1 1 0:1 / {top} rw - cgroup2 none rw", "a/memory.events", "low 0\noom 3\noom_kill 3\n"),
        ("5:memory:/a", "1 1 0:1 / {top} rw - cgroup none rw,memory", "a/memory.oom_control", "oom_kill 3\n"),
        ("0::/a", "", "", ""),
    ],
    ids=["version 2", "version 1", "no groups: the machine's"],
)
def test_kills_for_want_of_memory_are_counted_where_the_kernel_counts_them(
    cgroup: str, mounts: str, file: str, text: str, tmp_path: Path
) -> None:
    top = tmp_path / "cgroup"
    (top / "a").mkdir(parents=True)
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(f"{cgroup}\n")
    (proc / "self/mountinfo").write_text(mounts.format(top=top) + "\n" if mounts else "")
    (proc / "vmstat").write_text("nr_free 1\noom_kill 3\n")
    if file:
        (top / file).write_text(text)
    assert oom_kills(proc) == 3
    (proc / "vmstat").unlink()
    if not file:
        assert oom_kills(proc) == 0


def test_the_service_manager_hears_that_we_are_ready_and_then_only_of_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        service = ServiceManager()
        for computed in (0.0, 0.5, 0.5, 0.7):
            service.progress(computed)
        service.progress(0.7, waits=True)  # for what is none of its processes'
        service.stopping()
        assert [manager.recv(100) for _ in range(4)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"STOPPING=1"]


def test_a_service_manager_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().progress(1.0)


LOST = Failure("cuda:0 can't be used: RuntimeError: busy", EXIT_FAILED, started=False, lost=True)


def test_a_worker_whose_device_is_lost_in_two_lives_is_left_out_as_long_as_there_is_another() -> None:
    """Whatever the others have done meanwhile, and whether or not it got ready."""
    policy = RestartPolicy(budget=0)
    once = policy.died(WORKER_0, LOST, others=["cuda:1"])
    assert (once.restart, once.pause, policy.is_left_out(WORKER_0)) == (True, 0.5, False)
    policy.progress(9)
    twice = policy.died(WORKER_0, LOST, batch=3, others=["cuda:1", "cpu"])
    assert (twice.restart, twice.leave_out) == (False, True)
    assert twice.why == "left out, the run goes on with cuda:1, cpu"
    assert policy.is_left_out(WORKER_0)
    assert policy.died(Peer(WORKER, 1), LOST).restart
    last = policy.died(Peer(WORKER, 1), LOST)
    assert (last.restart, last.leave_out, last.exit_code) == (False, False, EXIT_CRASH_LOOP)
    assert last.why.startswith("no other device is left")


def test_a_coordinator_whose_device_is_lost_in_two_lives_goes_on_without_it_as_long_as_a_worker_has_another() -> None:
    policy, coordinator = RestartPolicy(budget=0), Peer(COORDINATOR)
    for others in (["cuda:1", "cuda:2"], ["cuda:2"]):  # the device that takes its place has two lives, too
        once, twice = (policy.died(coordinator, LOST, others=others) for _ in range(2))
        assert (once.restart, once.pause, once.leave_out) == (True, 0.5, False)
        assert (twice.restart, twice.leave_out) == (True, True)
        assert twice.why == f"the run goes on with {', '.join(others)}"
    policy.leave_out(WORKER_0)
    gone = policy.died(WORKER_0, others=["cuda:2"])
    assert (gone.restart, gone.leave_out) == (False, True), "however it has died"
    policy.died(coordinator, LOST)
    assert policy.died(coordinator, LOST).why.startswith("no other device is left")


def test_the_exchange_goes_where_a_worker_is_left_and_uses_the_memory_that_is_reserved() -> None:
    first = Exchange(("cuda:0",), ((0, 1),))
    second = after_loss(first, {2: "cuda:1", 3: "cuda:2", 4: "cuda:1"})
    assert (second.devices, second.local, second.without_room) == (("cuda:1",), (2, 4), (0, 1))
    assert str(second) == "gradients are added up on cuda:1: cuda:0 is lost"
    third = after_loss(second, {3: "cuda:2"})
    assert (third.devices, third.local, third.without_room) == (("cuda:2",), (3,), (0, 1))
    last = after_loss(third, {})
    assert (last.on_device, last.local, last.without_room) == (False, (), (0, 1))


def test_a_death_names_the_workers_gpu() -> None:
    assert death(2, card="cuda:1").line() == "worker 1 (incarnation 2, cuda:1) was killed by SIGKILL"

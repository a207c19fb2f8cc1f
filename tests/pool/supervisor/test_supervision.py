"""The supervisor's decisions: restarts, stopping, what is said of deaths, what the service manager hears."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_FAILED
from pool.exchange.exchange_choice import Exchange, without_lost_devices
from pool.process.failure import Failure, find_crash_line
from pool.protocol.blame import MAX_DEATHS, DeathInBatch
from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, WORKER, Peer
from pool.protocol.messages import RunReport, Shares
from pool.supervisor.deaths import Death, describe_deaths
from pool.supervisor.failover import relevant_deaths
from pool.supervisor.lost_devices import LossDecision, LostDevices
from pool.supervisor.policy import PAUSES, RestartPolicy
from pool.supervisor.resources.signals import StopSignals
from pool.supervisor.resources.system_memory import count_oom_kills
from pool.supervisor.stop_plan import Ending, StopPlan
from pool.supervisor.summary import describe_unsaved_steps
from pool.supervisor.systemd import ServiceManager

WORKER_0 = Peer(WORKER, 0)


def test_each_further_death_without_progress_waits_longer_until_the_budget_is_spent() -> None:
    policy = RestartPolicy(budget=6)
    decisions = [policy.decide(WORKER_0) for _ in range(7)]
    assert [decision.pause for decision in decisions[:6]] == [*PAUSES, PAUSES[-1]]
    assert [decision.restart for decision in decisions] == [True] * 6 + [False]
    assert (
        decisions[2].reason
        == "restarted in 0.5 s: death 3 since the last step; more than 6 end the run (pool.restarts)"
    )
    assert "it died 7 times without a step done (pool.restarts = 6)" in decisions[-1].reason
    assert policy.decide(Peer(FEEDER)).restart, "every place has a budget of its own"


def test_a_step_done_makes_the_budget_whole_again() -> None:
    policy = RestartPolicy(budget=1)
    policy.record_progress(3)
    assert policy.decide(WORKER_0).restart
    policy.record_progress(3)  # heard again: no progress
    assert not policy.decide(WORKER_0).restart
    policy.record_progress(4)
    assert policy.decide(WORKER_0).restart


def raising(signature: str = "ValueError task.py:3, in f", *, started: bool = True) -> Failure:
    return Failure("ValueError: bad (task.py:3, in f)", EXIT_FAILED, started, signature)


def test_one_that_gives_up_while_starting_is_not_started_again() -> None:
    decision = RestartPolicy(budget=5).decide(WORKER_0, raising(started=False))
    assert (decision.restart, decision.exit_code) == (False, EXIT_FAILED)


def test_an_exception_that_comes_again_in_the_next_incarnation_ends_the_run() -> None:
    """What obviously repeats is not tried `pool.restarts` times."""
    policy = RestartPolicy(budget=5)
    assert policy.decide(Peer(COORDINATOR), raising()).restart
    assert policy.decide(Peer(FEEDER), raising()).restart, "of another process"
    assert policy.decide(Peer(COORDINATOR), raising("KeyError elsewhere")).restart
    decision = policy.decide(Peer(COORDINATOR), raising("KeyError elsewhere"))
    assert (decision.restart, decision.exit_code) == (False, EXIT_FAILED)


def test_an_exception_is_a_new_one_after_a_step_done() -> None:
    policy = RestartPolicy(budget=5)
    assert policy.decide(Peer(COORDINATOR), raising()).restart
    policy.record_progress(1)
    assert policy.decide(Peer(COORDINATOR), raising()).restart


def test_exceptions_that_differ_are_a_crash_loop_in_the_end() -> None:
    policy = RestartPolicy(budget=2)
    decisions = [policy.decide(Peer(FEEDER), raising(str(number))) for number in range(3)]
    assert [decision.restart for decision in decisions] == [True, True, False]
    assert decisions[-1].exit_code == EXIT_CRASH_LOOP


def test_a_batch_that_raises_is_the_coordinators_to_judge() -> None:
    """With many bad batches in a step a worker dies often, and nothing is wrong with the worker."""
    policy = RestartPolicy(budget=0)
    for _ in range(9):
        decision = policy.decide(WORKER_0, raising(), batch=3)
        assert (decision.restart, decision.pause) == (True, 0.0)
        assert "once more" not in decision.reason, "that is for the coordinator to say"
    assert not policy.decide(WORKER_0, batch=3).restart, "a death without exception counts"


def test_one_that_nobody_waits_for_is_tried_again_however_often_that_fails() -> None:
    policy = RestartPolicy(budget=0)
    for _ in range(3):
        decision = policy.decide(Peer(FORKSERVER), needed=False)
        assert (decision.restart, decision.pause) == (True, PAUSES[-1])
    assert not policy.decide(Peer(FORKSERVER)).restart


def test_the_first_signal_finishes_the_step_the_second_ends_the_run() -> None:
    plan = StopPlan(timeout=10)
    said = [(plan.update(*looked), plan.ending) for looked in ((0, 0.0), (1, 1.0), (1, 2.0), (2, 3.0), (3, 20.0))]
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


def test_a_run_that_waits_for_the_disk_is_ended_by_a_second_signal_alone() -> None:
    plan = StopPlan(timeout=10)
    plan.update(1, 0.0)
    assert [plan.update(1, now, waits_for_disk=True) for now in (9.0, 60.0, 3000.0)] == ["", "", ""]
    assert plan.update(2, 3001.0, waits_for_disk=True) == "stopped at once; nothing more is saved"


def test_finishing_the_step_has_a_deadline() -> None:
    plan = StopPlan(timeout=10)
    plan.update(1, 0.0)
    assert plan.update(1, 10.0) == ""
    assert "pool.stop_timeout = 10 s" in plan.update(1, 10.1)
    assert plan.ending is Ending.NOW


def death(incarnation: int, **changes: object) -> Death:
    facts = {
        "ending": "was killed by SIGKILL",
        "killed_since": "",
        "out_of_memory": False,
        "batch": None,
        "last_lines": "",
    }
    return Death(Peer(WORKER, 1, incarnation), **{**facts, **changes})  # type: ignore[arg-type]


def test_a_death_is_told_with_who_how_and_what_it_held() -> None:
    assert death(2, batch=17).describe() == "worker 1 (incarnation 2) was killed by SIGKILL, it was computing batch 17"


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
        (DUMP.replace("Current thread", "Thread"), "loss (/home/me/my_task.py:12)"),
        (DUMP.partition("  File")[0], ""),
        ("", ""),
        (DUMP[: DUMP.index("/home")], ""),
    ],
    ids=["whole", "another signal", "a thread of torch's own", "cut off", "empty", "within torch alone"],
)
def test_the_line_that_a_crash_struck_is_found_in_the_log(log: str, place: str) -> None:
    assert find_crash_line(log) == place


def test_a_crash_in_a_worker_is_told_with_its_place_and_what_may_be_the_cause() -> None:
    line = death(1, ending="was killed by SIGSEGV", crashed_in="loss (task.py:3)").describe()
    assert line == (
        "worker 1 (incarnation 1) was killed by SIGSEGV in loss (task.py:3), as a task does that changes weights or "
        "a batch in place: workers may only read them; a batch's tensors are to be copied first, weights are "
        "after_step's to change"
    )


def test_an_exception_is_told_instead_of_an_exit_code_with_the_place_of_the_traceback() -> None:
    raised = death(1, exception="ValueError: bad (task.py:3, in f)", log=Path("logs/worker-1.log"), last_lines="Trace")
    assert raised.describe() == (
        "worker 1 (incarnation 1) raised ValueError: bad (task.py:3, in f), traceback in logs/worker-1.log"
    )
    assert describe_deaths([raised]) == raised.describe()


def test_a_kill_for_want_of_memory_names_what_to_lower_unless_it_was_our_own() -> None:
    assert "want of memory" in death(1, out_of_memory=True).describe()
    assert "lower data.batch_size" in death(1, out_of_memory=True).describe()
    assert "memory" not in death(1, out_of_memory=True, killed_since="hung").describe()


def test_where_a_crash_was_is_told_in_the_place_of_a_logs_last_lines() -> None:
    crashed = death(1, ending="was killed by SIGSEGV", crashed_in="loss (task.py:3)", last_lines="File frozen")
    assert describe_deaths([crashed]) == crashed.describe()


def test_the_account_at_the_end_has_every_death_newest_first_and_its_last_lines() -> None:
    lines = describe_deaths([death(1), death(2, batch=5), death(3, last_lines="a line\nanother")]).splitlines()
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
    assert count_oom_kills(proc) == 3
    (proc / "vmstat").unlink()
    if not file:
        assert count_oom_kills(proc) == 0


REPORT = RunReport(9, 12, 0, 32, 64, 4.0, (0.1,), (), -1, 1e-3, Shares(), 1.0, -1, False)


def test_the_service_manager_hears_that_we_are_ready_and_then_only_of_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        service = ServiceManager()
        for computed in (0.0, 0.5, 0.5, 0.7):
            service.notify_progress(replace(REPORT, compute_seconds=computed))
        waits = replace(REPORT, step=12, compute_seconds=0.7)  # for what is none of its processes'
        service.notify_progress(replace(waits, waits_for_nets=True))
        service.notify_progress(replace(waits, waits_for_disk=True))
        service.notify_stopping()
        assert [manager.recv(100) for _ in range(8)] == [
            b"STATUS=step 9/12, ETA 0:06",
            b"READY=1",
            b"WATCHDOG=1",
            b"WATCHDOG=1",
            b"STATUS=step 12/12, waits for nets to be exported and tried",
            b"WATCHDOG=1",
            b"STATUS=step 12/12, waits for room on the disk, to write what is left",
            b"STOPPING=1",
        ]


def test_a_service_manager_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().notify_progress(REPORT)


CARDS = {0: "cuda:0", 1: "cuda:1", 2: "cuda:2"}  # of workers
COORDINATING = Peer(COORDINATOR)


def lost(*suspects: str) -> Failure:
    return Failure("it can't be used: RuntimeError: busy", EXIT_FAILED, started=False, lost=suspects)


def with_cards(cards: Mapping[int, str]) -> tuple[RestartPolicy, LostDevices]:
    devices = LostDevices(cards)
    return RestartPolicy(budget=0, devices=devices), devices


def test_a_worker_whose_device_is_lost_in_two_lives_is_left_out_as_long_as_there_is_another() -> None:
    """Whatever the others have done meanwhile, and whether or not it got ready; and so are the others on it, however
    they die."""
    policy, devices = with_cards({0: "cuda:0", 1: "cuda:1", 2: "cuda:0"})
    once = policy.decide(WORKER_0, lost("cuda:0"))
    assert (once.restart, once.pause, policy.is_left_out(WORKER_0)) == (True, 0.5, False)
    policy.record_progress(9)
    twice = policy.decide(WORKER_0, lost("cuda:0"), batch=3)
    assert (twice.restart, twice.leave_out) == (False, True)
    assert twice.reason == "left out, the run goes on with cuda:1"
    assert policy.is_left_out(WORKER_0)
    beside = policy.decide(Peer(WORKER, 2))
    assert (beside.restart, beside.leave_out) == (False, True)
    assert devices.remaining() == {1: "cuda:1"}
    assert policy.decide(Peer(WORKER, 1), lost("cuda:1")).restart
    last = policy.decide(Peer(WORKER, 1), lost("cuda:1"))
    assert (last.restart, last.leave_out, last.exit_code) == (False, False, EXIT_CRASH_LOOP)
    assert last.reason.startswith("no other device is left")


def test_a_coordinator_whose_device_is_lost_in_two_lives_goes_on_without_it_as_long_as_a_worker_has_another() -> None:
    policy, _ = with_cards(CARDS)
    for device, others in (("cuda:0", "cuda:1, cuda:2"), ("cuda:1", "cuda:2")):  # each has two lives
        once, twice = (policy.decide(COORDINATING, lost(device)) for _ in range(2))
        assert (once.restart, once.pause, once.reason) == (True, 0.5, "tried once more in 0.5 s")
        assert (twice.restart, twice.reason) == (True, f"the run goes on with {others}")
    assert policy.decide(COORDINATING, lost("cuda:2")).restart
    last = policy.decide(COORDINATING, lost("cuda:2"))
    assert (last.restart, last.exit_code) == (False, EXIT_CRASH_LOOP)
    assert last.reason.startswith("no other device is left")


@pytest.mark.parametrize(
    ("ended", "left_out"),
    [
        ([["cuda:0", "cuda:1", "cuda:2"], ["cuda:1"]], "cuda:1"),
        ([["cuda:1"], ["cuda:0", "cuda:1", "cuda:2"]], "cuda:1"),
        ([["cuda:0", "cuda:1"], ["cuda:1", "cuda:2"]], "cuda:1"),
        ([["cuda:1"], ["cuda:2"]], None),
        ([["cuda:1"], ["cuda:2"], ["cuda:1"]], "cuda:1"),
    ],
)
def test_of_several_devices_the_one_is_left_out_that_two_lives_of_the_coordinator_suspect(
    ended: list[list[str]], left_out: str | None
) -> None:
    devices = LostDevices(CARDS)
    verdicts = [devices.count_coordinator_failure(suspects) for suspects in ended]
    assert [verdict.left_out for verdict in verdicts] == [None] * (len(ended) - 1) + [left_out]
    assert verdicts[-1].suspects == ([left_out] if left_out else ())


def test_what_the_coordinator_can_not_tell_a_worker_has_said() -> None:
    devices = LostDevices(CARDS)
    assert not devices.count_worker_failure(2)
    assert devices.count_coordinator_failure(list(CARDS.values())).left_out is None
    assert devices.count_coordinator_failure(list(CARDS.values())) == LossDecision("cuda:2", ["cuda:2"])


def test_a_coordinator_on_a_device_that_is_left_out_meanwhile_is_no_reason_to_leave_out_another() -> None:
    policy, devices = with_cards(CARDS)
    for _ in range(2):
        policy.decide(Peer(WORKER, 1), lost("cuda:1"))
    found = policy.decide(COORDINATING, lost(*CARDS.values()))
    assert (found.restart, found.reason) == (True, "the run goes on with cuda:0, cuda:2")
    assert devices.left_out == {"cuda:1"}


def test_if_nobody_can_tell_one_is_left_out_after_the_other_each_after_two_lives() -> None:
    policy, devices = with_cards(CARDS)
    for left, out in ((["cuda:0", "cuda:1", "cuda:2"], "cuda:0"), (["cuda:1", "cuda:2"], "cuda:1")):
        once, twice = (policy.decide(COORDINATING, lost(*left)) for _ in range(2))
        assert once.reason == "tried once more in 0.5 s"
        assert twice.restart
        assert twice.reason.startswith(
            f"which of {', '.join(left)} it is can't be told: {out} is left out, the run goes"
        )
    assert devices.remaining() == {2: "cuda:2"}


def test_a_process_that_we_end_for_what_is_not_its_fault_does_not_use_up_its_lives() -> None:
    policy, _ = with_cards(CARDS)
    policy.excuse(WORKER_0)
    found = policy.decide(WORKER_0)
    assert (found.restart, found.pause) == (True, 0.0)
    assert not policy.decide(Peer(WORKER, 0, 2)).restart, "another incarnation"


def test_deaths_in_batches_are_told_on_until_the_batch_was_computed() -> None:
    """A step may be done again. What it was done without stays left out."""
    once, thrice = DeathInBatch("train", 4, 8, ""), DeathInBatch("train", 4, 9, "")
    deaths = [once, *[thrice] * MAX_DEATHS, DeathInBatch("train", 6, 12, "KeyError")]
    assert relevant_deaths(deaths, 4) == tuple(deaths)
    assert relevant_deaths(deaths, 5) == tuple(deaths[1:])
    assert relevant_deaths(deaths, 7) == (thrice,) * MAX_DEATHS


def test_the_exchange_goes_where_a_worker_is_left_and_uses_the_memory_that_is_reserved() -> None:
    first = Exchange(("cuda:0",), ((0, 1),))
    second = without_lost_devices(first, ["cuda:0"], {2: "cuda:1", 3: "cuda:2", 4: "cuda:1"})
    assert (second.devices, second.workers_on_devices, second.workers_without_slots) == (("cuda:1",), (2, 4), (0, 1))
    assert str(second) == "gradients are added up on cuda:1: cuda:0 is lost"
    third = without_lost_devices(second, ["cuda:1", "cuda:0"], {3: "cuda:2"})
    assert (third.devices, third.workers_on_devices, third.workers_without_slots) == (("cuda:2",), (3,), (0, 1))


def test_an_exchange_on_several_devices_goes_on_with_those_that_are_left() -> None:
    first = Exchange(("cuda:0", "cuda:1", "cuda:2"), ((0, 3), (1,), (2,)))
    second = without_lost_devices(first, ["cuda:1"], {0: "cuda:0", 2: "cuda:2", 3: "cuda:0"})
    assert (second.devices, second.workers) == (("cuda:0", "cuda:2"), ((0, 3), (2,)))
    assert second.workers_without_slots == (0, 1, 2, 3)
    assert str(second) == "gradients are added up on cuda:0, cuda:2: cuda:1 is lost"
    third = without_lost_devices(second, ["cuda:0"], {2: "cuda:2"})
    assert (third.devices, third.workers, third.workers_without_slots) == (("cuda:2",), ((2,),), (0, 1, 2, 3))


def test_a_death_names_the_workers_gpu() -> None:
    assert death(2, gpu="cuda:1").describe() == "worker 1 (incarnation 2, cuda:1) was killed by SIGKILL"


@pytest.mark.parametrize(
    ("done", "saved", "line"),
    [
        (4, 4, ""),
        (0, 0, ""),
        (5, 4, "step 5 is in no checkpoint; --resume does it again"),
        (7, 4, "steps 5 to 7 are in no checkpoint; --resume does them again"),
    ],
)
def test_steps_that_a_resumed_run_does_again_are_named(done: int, saved: int, line: str) -> None:
    assert describe_unsaved_steps(done, saved) == line

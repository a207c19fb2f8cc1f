"""The process that all others are forked from: whose children they are, and what happens if it fails."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pool.config.load import parse_config
from pool.errors import RunError
from pool.process import forkserver, lifeline, prctl
from pool.process.start import Start
from pool.protocol.identity import FORKSERVER, Peer
from pool.supervisor.prepare import planner_request
from pool.supervisor.prepare.planner_request import ask_planner
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.forkserver import ForkServer, become_subreaper, process_environment
from pool.supervisor.resources.run_memory import RunMemory
from tests.support import run_plans
from tests.support.paths import ROOT
from tests.support.runs import TOY, command
from tests.support.wait import wait_for

pytestmark = pytest.mark.runs

GRACE = 60.0
NOBODY = Peer("nobody")


class Silent:
    """A child that says nothing, and a poller over it that answers at once and adds up how long it was to wait."""

    channel = -1

    def __init__(self) -> None:
        self.killed = ""
        self.looks: list[float] = []  # milliseconds

    def register(self, *what: object) -> None:
        pass

    def poll(self, milliseconds: float) -> list[object]:
        self.looks.append(milliseconds)
        return []

    def kill(self, why: str) -> None:
        self.killed = why


def run_plan(tmp_path: Path, *crash_points: str, start_timeout: float = 100.0) -> RunPlan:
    tree = {
        **run_plans.TREE,
        "pool": {**run_plans.TREE["pool"], "start_timeout": start_timeout},
        "testing": {"crash_points": list(crash_points)},
    }
    return run_plans.run_plan(tmp_path, config=parse_config(tree, "test"))


def started(tmp_path: Path, *crash_points: str) -> ForkServer:
    become_subreaper()
    config = run_plan(tmp_path, *crash_points).config
    server = ForkServer(Peer(FORKSERVER), config, tmp_path / "forkserver.log")
    assert server.receive_child() is server
    return server


@pytest.fixture(autouse=True)
def no_orphans_of_others() -> Iterator[None]:
    """Here the test is the supervisor; orphans of later tests would become its zombies."""
    yield
    prctl.adopt_orphans(wanted=False)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ForkServer]:
    """A fork server of the test's own."""
    server = started(tmp_path)
    yield server
    if server.returncode is None:
        server.end()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    server = started(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def server(lasting: ForkServer) -> ForkServer:
    """One that the test shares with others, and leaves as it was."""
    become_subreaper()
    assert lasting.can_fork
    return lasting


def forked(server: ForkServer, tmp_path: Path) -> Child:
    """A process that has not been told who it is."""
    server.request_process(NOBODY, tmp_path / "nobody.log")
    child = server.receive_child()
    assert child is not None
    return child


def lives(child: Child) -> bool:
    return not select.select([child.pidfd], [], [], 0)[0]


def readable(channel: socket.socket) -> bool:
    return bool(select.select([channel], [], [], 0)[0])


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def children_of_this_process() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()))


def test_what_it_forks_is_the_supervisors_child(server: ForkServer, tmp_path: Path) -> None:
    child = forked(server, tmp_path)
    assert parent_of(child.pid) == os.getpid()
    assert os.getpgid(child.pid) not in (os.getpgid(server.pid), os.getpgid(0))
    child.end()


def test_it_has_one_thread(server: ForkServer) -> None:
    """A fork copies only the thread that calls; what another holds would stay locked."""
    assert len(list(Path(f"/proc/{server.pid}/task").iterdir())) == 1


def test_it_imports_nothing_of_the_users(tmp_path: Path) -> None:
    """A module may start threads or open a device; here each process does that for itself."""
    (tmp_path / "threads_at_import.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from tests.support import toy\n"
        "from tests.support.toy import LossConfig, ModelConfig\n"
        "pool = ThreadPoolExecutor(1)\n"
        "pool.submit(int).result()\n"
        "def create_task(*arguments):\n"
        "    pool.submit(int).result()\n"
        "    return toy.create_task(*arguments)\n",
        encoding="utf-8",
    )
    settings = {**TOY, "task": "threads_at_import", "train.steps": 2}
    done = subprocess.run(
        command(tmp_path / "run", settings),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=GRACE * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_child_ends_when_the_supervisors_end_is_closed(server: ForkServer, tmp_path: Path) -> None:
    """As it would be if the supervisor died before the child was told anything."""
    child = forked(server, tmp_path)
    child.channel.close()
    assert child.end(GRACE) == f"was killed by {signal.SIGKILL.name}"


def test_its_own_death_ends_none_of_those_that_it_forked(mortal: ForkServer, tmp_path: Path) -> None:
    child = forked(mortal, tmp_path)
    mortal.end()
    assert lives(child)
    child.end()


def test_one_that_fails_is_known_by_its_log(server: ForkServer, tmp_path: Path) -> None:
    child = forked(server, tmp_path)
    child.send_start(Start(peer=NOBODY, run_dir=tmp_path), RunMemory())
    assert child.end(GRACE) == "exited with code 1"
    assert "Traceback" in (tmp_path / "nobody.log").read_text()
    assert "KeyError: 'nobody'" in child.last_lines()
    assert server.log.read_text() == ""


def test_a_dead_one_starts_nothing(mortal: ForkServer, tmp_path: Path) -> None:
    mortal.send_signal(signal.SIGKILL)
    mortal.request_process(NOBODY, tmp_path / "nobody.log")
    assert mortal.receive_child() is None


def test_one_that_dies_between_fork_and_answer_leaves_nobody(tmp_path: Path) -> None:
    """Its child has no other end to its lifeline then."""
    server = started(tmp_path, "forkserver.before_answer=kill")
    before = children_of_this_process()
    server.request_process(NOBODY, tmp_path / "nobody.log")
    assert server.receive_child() is None
    server.reap()
    for pid in children_of_this_process() - before:
        wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "its end", GRACE)  # noqa: B023


@pytest.mark.parametrize("calls_until_failure", [0, 1], ids=["the first fork", "the second"])
def test_a_fork_that_fails_is_told(calls_until_failure: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, calls = os.fork, 0

    def failing() -> int:
        nonlocal calls
        calls += 1
        if calls > calls_until_failure:
            raise OSError(errno.EAGAIN, "no more processes")
        return fork()

    monkeypatch.setattr(os, "fork", failing)
    assert forkserver._fork_orphan() == -errno.EAGAIN


def test_the_supervisor_makes_an_error_of_it(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.request_process(NOBODY, tmp_path / "nobody.log")
    with monkeypatch.context() as patch:
        patch.setattr(lifeline, "receive_number", lambda channel: -errno.EAGAIN)  # noqa: ARG005
        with pytest.raises(OSError, match="temporarily unavailable"):
            server.receive_child()
    forked_all_the_same = lifeline.receive_number(server.channel)
    assert forked_all_the_same is not None
    os.waitpid(forked_all_the_same, 0)


DIES_OR_HANGS = [
    *[f"{point}=kill" for point in ("forkserver.before_ready", "forkserver.before_fork", "planner.before_answer")],
    *[f"{point}=stop" for point in ("forkserver.before_ready", "forkserver.before_fork", "planner.before_answer")],
    "planner.before_answer=exit",  # without an error, as `kill` for who asks
]


@pytest.mark.parametrize("crash_point", DIES_OR_HANGS)
def test_what_dies_or_hangs_before_the_run_is_started_anew(
    crash_point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it hangs as soon as it stands still, and has all the time it needs until then."""
    wait, stopped = planner_request._wait_until_readable, []

    def wait_for_state(child: Child, timeout: float, signals: None) -> None:
        wait_for(lambda: is_stopped(child.pid) or readable(child.channel), "a state", GRACE)
        if is_stopped(child.pid):
            stopped.append(child.peer)
            timeout = 0.1
        wait(child, timeout, signals)

    monkeypatch.setattr(planner_request, "_wait_until_readable", wait_for_state)
    run, server = ask_planner(run_plan(tmp_path, crash_point), tmp_path, None)
    server.end()
    assert run.planned.plan.buckets
    assert server.peer.incarnation == 2
    assert len(stopped) == (1 if crash_point.endswith("stop") else 0)


def test_who_hangs_twice_ends_the_run_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleeping(peer: Peer, crash_points: Sequence[str], theirs: socket.socket, output: int) -> int:  # noqa: ARG001
        os.set_inheritable(theirs.fileno(), True)
        return os.posix_spawn("/bin/sleep", ["sleep", "60"], {})

    monkeypatch.setattr("pool.supervisor.processes.forkserver._exec", sleeping)
    with pytest.raises(RunError, match="fork server was killed by SIGKILL since it did not answer within"):
        ask_planner(run_plan(tmp_path, start_timeout=0.1), tmp_path, None)


def test_a_run_starts_though_its_children_were_to_be_ignored(tmp_path: Path) -> None:
    """SIGCHLD ignored is inherited over exec; then the kernel reaps, and nobody can wait for anybody."""
    done = subprocess.run(
        command(tmp_path / "run", {**TOY, "train.steps": 2}),
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=GRACE * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_time_in_which_the_machine_slept_is_held_against_no_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are counted, not the clock: who sleeps for an hour in one of them has lost that one."""
    child = Silent()
    monkeypatch.setattr(select, "poll", lambda: child)
    planner_request._wait_until_readable(child, 3.2, None)  # type: ignore[arg-type]
    assert child.killed == "did not answer within pool.start_timeout = 3.2 s"
    assert max(child.looks) == 1000 * planner_request.POLL_SECONDS
    assert 3200 <= sum(child.looks) < 3200 + max(child.looks)


@pytest.mark.parametrize(("set_to", "wanted"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_how_torchs_threads_wait_is_a_default(monkeypatch: pytest.MonkeyPatch, set_to: str | None, wanted: str) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if set_to is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", set_to)
    assert process_environment()["OMP_WAIT_POLICY"] == wanted


ASKED = """
import importlib, torch
from pool.process.forkserver import _IMPORTED
asked = []
for module, names in (
    (torch.cuda, ("is_available", "device_count", "init", "_lazy_init")),
    (torch.accelerator, ("is_available", "device_count", "current_accelerator")),
):
    for name in names:
        setattr(module, name, lambda *_, name=name, **__: asked.append(name))
for name in _IMPORTED:
    importlib.import_module(name)
print(asked)
"""


def test_what_it_imports_asks_no_driver() -> None:
    """One that was begun before a fork can't be used after it."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout == "[]\n"

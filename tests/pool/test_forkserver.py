"""The process that all others are forked from: whose children they are, and what happens if it fails."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool import forkserver, lifeline
from pool.config import parse_config
from pool.launch import Launch
from pool.protocol.identity import COORDINATOR, FORKSERVER, Peer
from pool.protocol.messages import CursorState
from pool.supervisor.child import Child
from pool.supervisor.forkserver import FORK_SECONDS, ForkServer, UnresponsiveError
from tests.support.wait import wait_for

GRACE = 30.0


def launch(tmp_path: Path, peer: Peer, **testing: object) -> Launch:
    return Launch(
        peer=peer,
        config=parse_config({"task": "tests.support.toy", "testing": testing}, "test"),
        run_dir=tmp_path,
        sockets=tmp_path,
        coordinator=Peer(COORDINATOR),
        devices=("fake:0",),
        train_files=(),
        validation_files=(),
        schema=None,
        plan=None,
        segments={},
        step=0,
        start=CursorState(0, 0, 0, 0),
        checkpoint=None,
        snapshot=None,
        saved=-1,
        state_nbytes=0,
        fingerprint={},
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    server = ready(ForkServer(launch(tmp_path, Peer(FORKSERVER)), tmp_path / "forkserver.log"))
    yield server
    if server.returncode is None:
        server.end()


def ready(server: ForkServer) -> ForkServer:
    """It answers when it has imported all."""
    assert server.take_ready()
    return server


def untold(server: ForkServer, tmp_path: Path) -> Child:
    """A process that has not been told who it is."""
    ours, theirs = lifeline.pair()
    with theirs:
        lifeline.request(server.channel, theirs)
    pid = lifeline.take_number(server.channel)
    assert pid is not None
    return Child(Peer("nobody"), pid, ours, tmp_path / "log")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_what_it_forks_is_the_supervisors_child(server: ForkServer, tmp_path: Path) -> None:
    child = untold(server, tmp_path)
    assert parent_of(child.pid) == os.getpid()
    assert os.getpgid(child.pid) not in (os.getpgid(server.pid), os.getpgid(0))
    child.end()


def test_it_has_one_thread(server: ForkServer) -> None:
    """A fork copies only the thread that calls; what another holds would stay locked."""
    assert threads_of(server.pid) == 1


def test_a_child_ends_when_the_supervisors_end_is_closed(server: ForkServer, tmp_path: Path) -> None:
    """As it would be if the supervisor died before the child was told anything."""
    child = untold(server, tmp_path)
    child.channel.close()
    assert child.end(GRACE) == f"was killed by {signal.SIGKILL.name}"


def test_its_own_death_ends_none_of_those_that_it_forked(server: ForkServer, tmp_path: Path) -> None:
    child = untold(server, tmp_path)
    server.end()
    os.kill(child.pid, 0)
    assert child.end() == f"was killed by {signal.SIGKILL.name}"


def test_one_that_fails_is_known_by_its_log(server: ForkServer, tmp_path: Path) -> None:
    child = server.start(launch(tmp_path, Peer("nobody")), tmp_path / "nobody.log", {}, {})
    assert child is not None
    assert child.end(GRACE) == "exited with code 1"
    assert "Traceback" in (tmp_path / "nobody.log").read_text()
    assert "KeyError: 'nobody'" in child.last_lines()
    assert (tmp_path / "forkserver.log").read_text() == ""


def test_a_dead_one_starts_nothing(server: ForkServer, tmp_path: Path) -> None:
    server.send_signal(signal.SIGKILL)
    assert server.start(launch(tmp_path, Peer("nobody")), tmp_path / "nobody.log", {}, {}) is None


def test_one_that_does_not_answer_is_killed(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pool.supervisor.forkserver.FORK_SECONDS", 0.01)
    server.send_signal(signal.SIGSTOP)
    with pytest.raises(UnresponsiveError, match="the fork server did not fork"):
        server.start(launch(tmp_path, Peer("nobody")), tmp_path / "nobody.log", {}, {})
    assert server.end(FORK_SECONDS) == f"was killed by {signal.SIGKILL.name}"


def test_one_that_dies_between_fork_and_answer_leaves_nobody(tmp_path: Path) -> None:
    """Its child has no other end to its lifeline then."""
    server = ready(
        ForkServer(launch(tmp_path, Peer(FORKSERVER), crash_points=["forkserver.before_answer=kill"]), tmp_path / "log")
    )
    before = children_of_this_process()
    assert server.start(launch(tmp_path, Peer("nobody")), tmp_path / "nobody.log", {}, {}) is None
    for pid in children_of_this_process() - before:
        wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "its end", GRACE)  # noqa: B023
    server.reap()


def children_of_this_process() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()))


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
    assert forkserver._fork() == -errno.EAGAIN


def test_the_supervisor_makes_an_error_of_it(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "take_number", lambda channel: -errno.EAGAIN)  # noqa: ARG005
    with pytest.raises(OSError, match="temporarily unavailable"):
        server.start(launch(tmp_path, Peer("nobody")), tmp_path / "nobody.log", {}, {})

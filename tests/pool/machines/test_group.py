"""Connections of machines that fail in one direction: both sides say so, with address and port, and wait no longer than
they are to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import RunError
from pool.machines import group, leader
from pool.machines.addresses import Endpoint
from pool.machines.follower import Follower
from pool.machines.group import MachineGroup
from pool.machines.key import read_key, write_key
from pool.machines.rank import MachineRank
from tests.support.wait import wait_for

SILENCE_TIMEOUT = 1.5
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MachineGroup]]:
    """Two machines that have less patience."""
    for module in (leader, group):
        monkeypatch.setattr(module, "SILENCE_TIMEOUT", SILENCE_TIMEOUT)
    write_key(tmp_path / "run.key")
    first = Endpoint(HOST, free_port())
    ranks = [MachineRank(2, machine, HOST, read_key(tmp_path / "run.key")) for machine in range(2)]
    groups = [MachineGroup(rank, first, [HOST]) for rank in ranks]
    for each in groups:
        each.follower.report_steps([0])
    yield groups
    for each in groups:
        each.close()


def outcome_of(machine: MachineGroup, timeout: float) -> tuple[list[str], str]:
    """Waits for the first step: the lines, and the error that ends it."""
    lines: list[str] = []
    try:
        machine.wait_for_decision(Path, lambda: False, lines.append, timeout)
    except RunError as error:
        return lines, f"{error.exit_code}: {error}"
    return lines, ""


def outcomes_of(machines: list[MachineGroup], timeout: float) -> list[tuple[list[str], str]]:
    outcomes: list[tuple[list[str], str]] = [([], "")] * len(machines)

    def wait(index: int) -> None:
        outcomes[index] = outcome_of(machines[index], timeout)

    threads = [threading.Thread(target=wait, args=(index,)) for index in range(len(machines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that takes connections, and never an answer."""
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_both_begin_when_they_hear_each_other(machines: list[MachineGroup]) -> None:
    assert [error for _, error in outcomes_of(machines, 60)] == ["", ""]


def test_a_machine_that_is_heard_and_can_not_hear(machines: list[MachineGroup]) -> None:
    """A firewall before the second lets nothing in."""
    with closed_port() as port:
        address = f"tcp://{HOST}:{port}"
        machines[1].follower = Follower("life", address)
        machines[1].follower.report_steps([0])
        (first, first_error), (second, second_error) = outcomes_of(machines, 1)
    line = f"machine 1: it is heard, but there is no connection to machine 1 at {address}: let that port through"
    assert any(f"waiting up to 1 s for {line}" in each for each in first)
    assert f"{EXIT_CRASH_LOOP}: machine 1 is waited for in vain for 1 s (pool.machine_timeout)" in first_error
    assert address in first_error
    assert any("waiting up to 1 s for machine 0: it is reached at" in each for each in second)
    assert machines[1]._hub.address in second_error


def test_a_first_machine_that_nothing_reaches(machines: list[MachineGroup], tmp_path: Path) -> None:
    """A firewall before the first lets nothing in: neither hears of the other."""
    with closed_port() as port:
        rank = MachineRank(2, 1, HOST, read_key(tmp_path / "run.key"))
        deaf = MachineGroup(rank, Endpoint(HOST, port), [HOST])
        (first, first_error), (second, second_error) = outcomes_of([machines[0], deaf], 1)
        deaf.close()
    where = f"there is no connection to tcp://{HOST}:{port}"
    assert any(where in each for each in second)
    assert where in second_error
    assert any(f"a firewall here may close {machines[0]._hub.address}" in each for each in first)
    assert "machine 1 is waited for in vain" in first_error


def hear_all(machines: list[MachineGroup]) -> Callable[[], bool]:
    def are_connected() -> bool:
        for each in machines:
            each.exchange_messages()
        return all(each._hub.is_connected(1 - each.rank.machine) for each in machines)

    return are_connected


@pytest.mark.parametrize("paused", [0, 1])
def test_a_machine_that_was_paused_waits_for_nobody(
    paused: int, machines: list[MachineGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it does not tell itself to be started."""
    wait_for(hear_all(machines), "connections", 20)
    clock = time.monotonic
    later = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + later)
    later = 10 * SILENCE_TIMEOUT  # in which the other one goes on
    machines[1 - paused].exchange_messages()
    machines[paused].exchange_messages()
    assert machines[paused].missing_machines == ""
    machines[1].follower.missing_machines = (1,)  # as the first machine has said before it was heard again
    assert "1" not in machines[1].missing_machines

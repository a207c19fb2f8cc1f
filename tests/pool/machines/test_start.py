"""A machine's place, from options and from what has started it there."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loader.exit_codes import EXIT_USAGE
from pool.errors import ConfigError, UnavailableError
from pool.machines import group as group_module
from pool.machines.addresses import Endpoint, find_local_address, parse_endpoint, resolve_host
from pool.machines.group import MachineGroup
from pool.machines.key import read_key, write_key
from pool.machines.rank import MachineRank
from pool.machines.start import MachineOptions, find_lone_machine_warning, join_machines, refuse_several_machines
from pool.protocol.tcp_endpoint import with_scope_of, without_scope
from tests.support.wait import wait_for


@pytest.fixture
def key(tmp_path: Path) -> Path:
    write_key(tmp_path / "run.key")
    return tmp_path / "run.key"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


TORCHRUN = {
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "3",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_MAX_RESTARTS": "0",
}
SLURM_STEP = {
    **{"SLURM_JOB_NUM_NODES": "9", "SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "gpu[1-9]"},
    **{"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "local[]host"},
}
SLURM = {"SLURM_JOB_NUM_NODES": "4", "SLURM_NODEID": "2", "SLURM_JOB_NODELIST": "localhost,gpu[03-05]"}
KUBERNETES = {"JOB_COMPLETION_INDEX": "1"}


@pytest.mark.parametrize(
    ("environment", "options", "machines", "machine"),
    [
        (TORCHRUN, MachineOptions(), 3, 1),
        (SLURM, MachineOptions(), 4, 2),
        ({**SLURM_STEP, "SLURM_STEP_NODELIST": "local[0-1],x"}, MachineOptions(first="localhost"), 2, 1),
        (KUBERNETES, MachineOptions(machines=2, first="localhost"), 2, 1),
        ({}, MachineOptions(2, 1, "localhost:4711"), 2, 1),
        ({}, MachineOptions(2, 1, "localhost", "lo"), 2, 1),
    ],
)
def test_number_and_index(
    environment: dict[str, str], options: MachineOptions, machines: int, machine: int, key: Path
) -> None:
    group = join_machines(replace(options, key=key), environment)
    assert (group.rank.num_machines, group.rank.machine) == (machines, machine)
    assert group.rank.host == "127.0.0.1"
    group.close()


@pytest.mark.parametrize(
    ("environment", "options", "what"),
    [
        ({}, MachineOptions(2, 1), "--first: needed"),
        ({}, MachineOptions(first="localhost"), "--machines, --machine: needed"),
        ({}, MachineOptions(1, 0, "localhost"), "--machines: 1; a run on one machine is for pool train"),
        ({}, MachineOptions(2, 2, "localhost"), "--machine: 2; of 2 machines the last one is 1"),
        ({}, MachineOptions(2, 0, "localhost:port"), "HOST:PORT is expected"),
        ({}, MachineOptions(2, 0, "localhost", "nowhere7"), "--interface: nowhere7 has no address; there are"),
        ({}, MachineOptions(2, 0, "no-such-host.invalid"), "--first: no-such-host.invalid: "),
        ({**TORCHRUN, "TORCHELASTIC_MAX_RESTARTS": "3"}, MachineOptions(), "--max-restarts=0"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, MachineOptions(), "--nproc-per-node=1"),
        (SLURM_STEP, MachineOptions(), r"SLURM_STEP_NODELIST: local\[\]host: .* name the first machine by --first"),
        ({}, MachineOptions(2, 0, ""), "--first: the host of machine 0 is expected"),
        (
            {},
            MachineOptions(2, 0, "localhost:29600", port=29601),
            "--port: 29601; machine 0 listens at the port of --first",
        ),
    ],
)
def test_what_is_wrong_is_said(environment: dict[str, str], options: MachineOptions, what: str, key: Path) -> None:
    with pytest.raises(ConfigError, match=what.replace("?", ".")):
        join_machines(replace(options, key=key), environment)


@pytest.mark.parametrize("machine", [0, 1])
def test_a_name_that_is_this_machine_s_own_loopback_is_refused(
    machine: int, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian's /etc/hosts has it."""
    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *rest, **more: known("127.0.1.1", *rest, **more))
    with pytest.raises(ConfigError, match=r"--first: a is 127\.0\.[01]\.1 on this machine"):
        join_machines(MachineOptions(2, machine, "a", key=key), {})


@pytest.mark.parametrize(
    ("first", "endpoint"),
    [
        ("a", "a:29500"),
        ("a:4711", "a:4711"),
        ("[fd00::1]:4711", "[fd00::1]:4711"),
        ("[fd00::1]", "[fd00::1]:29500"),
        ("[fe80::1%eth0]:4711", "[fe80::1%eth0]:4711"),
        ("::1", "[::1]:29500"),
        ("fe80::abcd", "[fe80::abcd]:29500"),
    ],
)
def test_where_the_first_machine_is(first: str, endpoint: str) -> None:
    assert str(parse_endpoint(first)) == endpoint


@pytest.mark.parametrize(
    "first",
    ["", ":1", "a:", "a:0", "a:65536", "a:b", "a:²", "[::1", "[a]:1", "[::1]1", "[::1]:x", "fd00::1:4711", "a:b:1"],
)
def test_what_can_be_read_two_ways_or_none_is_refused(first: str) -> None:
    with pytest.raises(ConfigError, match="--first: ") as refused:
        parse_endpoint(first)
    assert refused.value.exit_code == EXIT_USAGE


def test_ipv6_also_with_an_interface(key: Path) -> None:
    for options in (MachineOptions(2, 1, "[::1]:4711", key=key), MachineOptions(2, 1, "[::1]:4711", "lo", key=key)):
        group = join_machines(options, {})
        assert group.rank.host == "::1"
        assert group.follower.report.address.startswith("tcp://[::1]:")
        group.close()


def known_as(monkeypatch: pytest.MonkeyPatch, name: str, *addresses: str) -> None:
    """Makes a host's name known."""
    lookup = socket.getaddrinfo

    def answers(host: Any, *rest: Any, **more: Any) -> list[Any]:
        hosts = addresses if host == name else (host,)
        return [answer for each in hosts for answer in lookup(each, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", answers)


def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One has no way from here, one is a loopback's; machines with and without IPv6 choose the same."""
    known_as(monkeypatch, "a", "::1", "127.0.0.2", "255.255.255.255", "127.0.0.1")
    assert resolve_host("a") == ["127.0.0.2", "255.255.255.255", "127.0.0.1", "::1"]
    assert find_local_address(None, "127.0.0.1", ["255.255.255.255", "127.0.0.1"]) == "127.0.0.1"


def test_the_first_machine_is_found_at_any_of_its_addresses(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name stands for several, and it listens at one of them."""
    monkeypatch.setattr(group_module, "NEXT_ADDRESS", 0.1)
    port = free_port()
    first = MachineGroup(MachineRank(2, 0, "127.0.0.2", read_key(key)), Endpoint("127.0.0.2", port), ["127.0.0.2"])
    addresses = ["127.0.0.3", "127.0.0.2"]
    second = MachineGroup(MachineRank(2, 1, "127.0.0.1", read_key(key)), Endpoint("127.0.0.3", port), addresses)

    def are_connected() -> bool:
        first.exchange_messages()
        second.exchange_messages()
        return first.missing_machines == second.missing_machines == ""

    wait_for(are_connected, "a connection", 20)
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("first", "interface"), [("no-such-host.invalid", None), ("255.255.255.255", None), ("[::1]", "tunl7")]
)
def test_what_may_still_come_is_tried_again(first: str, interface: str | None, key: Path, monkeypatch: Any) -> None:
    """Names that are not known yet, networks without a way, interfaces without an address."""
    known = socket.if_nameindex()
    monkeypatch.setattr(socket, "if_nameindex", lambda: [*known, (99, "tunl7")])
    with pytest.raises(UnavailableError, match=r"--first: |--interface: tunl7 has no IPv6 address now"):
        join_machines(MachineOptions(2, 1, first, interface, key), {})


def test_a_link_local_address_needs_its_interface(key: Path) -> None:
    with pytest.raises(ConfigError, match=r"link-local address needs its interface, such as \[fe80::1%eth0\]"):
        join_machines(MachineOptions(2, 1, "[fe80::1]:1", key=key), {})
    assert without_scope("tcp://[fe80::1%eth0]:4711") == "tcp://[fe80::1]:4711"
    assert without_scope("tcp://10.0.0.1:4711") == "tcp://10.0.0.1:4711"
    assert with_scope_of("fe80::2%ib1", "tcp://[fe80::1]:4711") == "tcp://[fe80::1%ib1]:4711"
    assert with_scope_of("fe80::2%ib1", "tcp://[fd00::1]:4711") == "tcp://[fd00::1]:4711"
    assert with_scope_of("fd00::2", "tcp://[fe80::1]:4711") == "tcp://[fe80::1]:4711"


@pytest.mark.parametrize(
    ("environment", "machines"),
    [
        ({}, 0),
        ({"SLURM_JOB_NUM_NODES": "2"}, 2),
        ({"SLURM_NNODES": "3"}, 3),
        ({"SLURM_JOB_NUM_NODES": "4", "SLURM_STEP_NUM_NODES": "1"}, 0),
        (TORCHRUN, 3),
        ({"SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1"}, 0),
    ],
)
def test_a_run_of_one_machine_on_several_says_that_it_trains_alone(environment: dict[str, str], machines: int) -> None:
    line = find_lone_machine_warning(environment)
    assert line.startswith(f"{machines} machines were started here, and each trains on its own") == bool(machines)
    assert ("pool machines" in line) == bool(machines)


@pytest.mark.parametrize("environment", [TORCHRUN, SLURM_STEP], ids=["torchrun", "srun"])
def test_a_run_of_one_machine_that_is_started_on_several_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="pool machines trains one network on all"):
        refuse_several_machines(environment)


@pytest.mark.parametrize(
    "environment", [{}, SLURM, {**SLURM, "SLURM_STEP_NUM_NODES": "1"}, {**TORCHRUN, "GROUP_WORLD_SIZE": "1"}]
)
def test_a_job_of_several_machines_may_train_on_one(environment: dict[str, str]) -> None:
    refuse_several_machines(environment)


def test_a_port_in_use(key: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(UnavailableError, match="address already in use"):
            join_machines(MachineOptions(2, 0, f"127.0.0.1:{other.getsockname()[1]}", key=key), {})


def test_a_key_is_nobody_elses_to_read(key: Path, tmp_path: Path) -> None:
    assert len(read_key(key)) == 40
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="is there already"):
        write_key(key)
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(key)
    with pytest.raises(ConfigError, match="pool machines --new-key"):
        read_key(tmp_path / "missing")
    key.chmod(0o600)
    for text in ("", "short", "~" * 40, "a" * 41):
        key.write_text(text)
        with pytest.raises(ConfigError, match="holds no key"):
            read_key(key)

"""A machine's place, from options and from what has started it there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pool.errors import ConfigError, UnavailableError
from pool.machines.key import read_key, write_key
from pool.machines.start import Given, join


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
SLURM = {"SLURM_JOB_NUM_NODES": "4", "SLURM_NODEID": "2", "SLURM_JOB_NODELIST": "localhost,gpu[03-05]"}
KUBERNETES = {"JOB_COMPLETION_INDEX": "1"}


@pytest.mark.parametrize(
    ("environment", "given", "machines", "machine"),
    [
        (TORCHRUN, Given(), 3, 1),
        (SLURM, Given(), 4, 2),
        (KUBERNETES, Given(machines=2, first="localhost"), 2, 1),
        ({}, Given(2, 1, "localhost:4711"), 2, 1),
        ({}, Given(2, 1, "localhost", "lo"), 2, 1),
    ],
)
def test_number_and_index(environment: dict[str, str], given: Given, machines: int, machine: int, key: Path) -> None:
    group = join(Given(given.machines, given.machine, given.first, given.interface, key), environment)
    assert (group.place.machines, group.place.machine) == (machines, machine)
    assert group.place.host == "127.0.0.1"
    group.close()


@pytest.mark.parametrize(
    ("environment", "given", "what"),
    [
        ({}, Given(2, 1), "--first: needed"),
        ({}, Given(first="localhost"), "--machines, --machine: needed"),
        ({}, Given(1, 0, "localhost"), "--machines: 1; a run on one machine"),
        ({}, Given(2, 2, "localhost"), "--machine: 2; of 2 machines the last one is 1"),
        ({}, Given(2, 0, "localhost:port"), "HOST:PORT is expected"),
        ({}, Given(2, 0, "localhost", "nowhere7"), "--interface: nowhere7 has no address; there are"),
        ({}, Given(2, 0, "no-such-host.invalid"), "--first: no-such-host.invalid: "),
        ({**TORCHRUN, "TORCHELASTIC_MAX_RESTARTS": "3"}, Given(), "--max-restarts=0"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, Given(), "--nproc-per-node=1"),
    ],
)
def test_what_is_wrong_is_said(environment: dict[str, str], given: Given, what: str, key: Path) -> None:
    with pytest.raises(ConfigError, match=what.replace("?", ".")):
        join(Given(given.machines, given.machine, given.first, given.interface, key), environment)


@pytest.mark.parametrize("machine", [0, 1])
def test_a_name_that_is_this_machine_s_own_loopback_is_refused(
    machine: int, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian's /etc/hosts has it."""
    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *rest, **more: known("127.0.1.1", *rest, **more))
    with pytest.raises(ConfigError, match=r"--first: a is 127\.0\.[01]\.1 on this machine"):
        join(Given(2, machine, "a", key=key), {})


def test_a_port_in_use(key: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(UnavailableError, match="address already in use"):
            join(Given(2, 0, f"127.0.0.1:{other.getsockname()[1]}", key=key), {})


def test_a_key_is_nobody_elses_to_read(key: Path, tmp_path: Path) -> None:
    assert len(read_key(key)) == 40
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="is there already"):
        write_key(key)
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(key)
    with pytest.raises(ConfigError, match="pool machines-key"):
        read_key(tmp_path / "missing")
    key.chmod(0o600)
    for text in ("", "short", "~" * 40, "a" * 41):
        key.write_text(text)
        with pytest.raises(ConfigError, match="holds no key"):
            read_key(key)

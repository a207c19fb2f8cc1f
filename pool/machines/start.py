"""A machine's place in a run, from what its user, or what started it there, has said.

Number, index and first machine are taken from torchrun's, Slurm's or Kubernetes' environment if they are not given.
"""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from pool.errors import ConfigError
from pool.machines.group import MachineGroup
from pool.machines.key import read_key
from pool.machines.place import MachinePlace

PORT = 29500
_SIOCGIFADDR = 0x8915  # linux/sockios.h


@dataclass(frozen=True)
class Given:
    """The options of the command line; None: not given."""

    machines: int | None = None
    machine: int | None = None
    first: str | None = None  # HOST or HOST:PORT
    interface: str | None = None
    key: Path | None = None

    @property
    def is_for_several(self) -> bool:
        return any(value is not None for value in vars(self).values())


def join(given: Given, environment: Mapping[str, str]) -> MachineGroup:
    """Connects to the other machines of the run. Raises ConfigError, of which UnavailableError if the port is in
    use."""
    launched = _launched(environment)
    machines = launched.machines if given.machines is None else given.machines
    machine = launched.machine if given.machine is None else given.machine
    first = launched.first if given.first is None else given.first
    missing = [
        option
        for option, value in (
            ("--machines", machines),
            ("--machine", machine),
            ("--first", first),
            ("--key", given.key),
        )
        if value is None
    ]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)}: needed for a run on several machines; --first is the host of machine 0, as the "
            "others reach it, and `pool machines-key` makes a key"
        )
    assert machines is not None
    assert machine is not None
    assert first is not None
    assert given.key is not None
    if machines < 2:
        raise ConfigError(f"--machines: {machines}; a run on one machine needs none of these options")
    if not 0 <= machine < machines:
        raise ConfigError(f"--machine: {machine}; of {machines} machines the last one is {machines - 1}")
    host, port = _host_and_port(first)
    place = MachinePlace(machines, machine, _own_address(given.interface, host), read_key(given.key))
    return MachineGroup(place, host, port)


def _launched(environment: Mapping[str, str]) -> Given:
    """Returns what torchrun, Slurm or Kubernetes says. Raises ConfigError for torchrun's elastic mode."""
    if "GROUP_RANK" in environment and "GROUP_WORLD_SIZE" in environment:
        if environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
            raise ConfigError(
                "torchrun: its restarts would end healthy machines; give it --max-restarts=0 and one number of --nnodes"
            )
        if environment.get("LOCAL_WORLD_SIZE", "1") != "1":
            raise ConfigError("torchrun: one `pool train` is one machine; give it --nproc-per-node=1")
        first = environment.get("MASTER_ADDR")
        port = PORT + 1 if environment.get("MASTER_PORT") == str(PORT) else PORT
        number, index = int(environment["GROUP_WORLD_SIZE"]), int(environment["GROUP_RANK"])
        return Given(number, index, None if first is None else f"{first}:{port}")
    if "SLURM_NODEID" in environment and "SLURM_JOB_NUM_NODES" in environment:
        number, index = int(environment["SLURM_JOB_NUM_NODES"]), int(environment["SLURM_NODEID"])
        return Given(number, index, _first_of(environment.get("SLURM_JOB_NODELIST", "")))
    if "JOB_COMPLETION_INDEX" in environment:
        return Given(machine=int(environment["JOB_COMPLETION_INDEX"]))
    return Given()


def _first_of(nodes: str) -> str | None:
    """Returns the first host of Slurm's list, such as `gpu[03-05,7],login`."""
    match = re.match(r"([^,\[]+)(?:\[([^\]]+)\])?", nodes)
    if match is None:
        return None
    number = "" if match[2] is None else re.split("[-,]", match[2])[0]
    return match[1] + number


def _host_and_port(first: str) -> tuple[str, int]:
    host, colon, port = first.rpartition(":")
    if not colon:
        return first, PORT
    if not port.isdecimal() or not 0 < int(port) < 1 << 16 or not host:
        raise ConfigError(f"--first: {first}; HOST:PORT is expected")
    return host, int(port)


def _own_address(interface: str | None, first: str) -> str:
    """Returns the address at which the others reach this machine: that of the interface, or that from which the first
    machine is reached. Raises ConfigError."""
    if interface is not None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            try:
                request = struct.pack("256s", interface.encode()[:15])
                answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
            except OSError:
                names = ", ".join(name for _, name in socket.if_nameindex())
                raise ConfigError(f"--interface: {interface} has no address; there are {names}") from None
            return socket.inet_ntoa(answer[20:24])
    try:
        family, _, _, _, address = socket.getaddrinfo(first, PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as any_socket:
            any_socket.connect(address)  # sends nothing
            own: str = any_socket.getsockname()[0]
    except OSError as error:
        raise ConfigError(f"--first: {first}: {error.strerror}") from None
    if ip_address(own).is_loopback and first not in ("localhost", address[0]):  # a name that stands for it here
        raise ConfigError(
            f"--first: {first} is {own} on this machine, where no other reaches it; give --interface, or the address "
            "of the first machine"
        )
    return own

"""Finds this machine's place in a run on several, from the command line and from the launcher's environment.

Options that are not given are taken from the environment of torchrun, Slurm or Kubernetes: the number of machines, the
index of this one, and the first machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pool.errors import ConfigError
from pool.machines.addresses import PORT, Endpoint, own_address, parse_endpoint, resolve
from pool.machines.group import MachineGroup
from pool.machines.key import read_key
from pool.machines.rank import MachineRank
from pool.machines.slurm import expand_hosts

# variables with the number of machines on which torchrun or srun has started this command, not just of a job
_STARTED_NUMBERS = ("GROUP_WORLD_SIZE", "SLURM_STEP_NUM_NODES")
# `srun` may start a step on some of a job's nodes: SLURM_NODEID counts those.
_SLURM_NUMBERS = ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES")
_SLURM_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")


@dataclass(frozen=True)
class Given:
    """Holds the options of the command line. None: not given."""

    machines: int | None = None
    machine: int | None = None
    first: str | None = None  # HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT
    interface: str | None = None
    key: Path | None = None
    port: int | None = None  # port at which the supervisor listens; the coordinator takes the next one


def join(given: Given, environment: Mapping[str, str]) -> MachineGroup:
    """Checks the options and connects to the other machines of the run.

    Raises ConfigError, of which UnavailableError if the port is in use.
    """
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
            "others reach it, and `pool machines --new-key FILE` makes a key"
        )
    assert machines is not None
    assert machine is not None
    assert first is not None
    assert given.key is not None
    if machines < 2:
        raise ConfigError(f"--machines: {machines}; a run on one machine is for pool train")
    if not 0 <= machine < machines:
        raise ConfigError(f"--machine: {machine}; of {machines} machines the last one is {machines - 1}")
    endpoint = parse_endpoint(first)
    addresses = resolve(endpoint.host)
    host = own_address(given.interface, endpoint.host, addresses)
    if given.port is not None and machine == 0 and given.port != endpoint.port:
        raise ConfigError(f"--port: {given.port}; machine 0 listens at the port of --first, {endpoint.port}")
    place = MachineRank(machines, machine, host, read_key(given.key), port=given.port or 0)
    return MachineGroup(place, endpoint, addresses)


def check_starts_alone(environment: Mapping[str, str]) -> None:
    """Refuses a run on one machine that a launcher starts on several, since each would train the same. Raises
    ConfigError."""
    for name in _STARTED_NUMBERS:
        number = environment.get(name, "")
        if number.isdecimal() and int(number) > 1:
            raise ConfigError(
                f"{name} is {number}: on each of so many machines the same network would be trained; pool machines "
                f"trains one network on all, and for a run of its own on each unset {name}"
            )


def lone_machine_line(environment: Mapping[str, str]) -> str:
    """Returns a warning if a run on one machine was started on several, else an empty string."""
    launched = _count_launched(environment)
    if launched < 2:
        return ""
    return (
        f"{launched} machines were started here, and each trains on its own: pool machines trains one network on "
        "all of them"
    )


def _count_launched(environment: Mapping[str, str]) -> int:
    """Returns the number of machines on which torchrun or Slurm has started this command, or 1 if the environment has
    none."""
    for name in ("GROUP_WORLD_SIZE", *_SLURM_NUMBERS, "SLURM_NNODES"):
        if (text := environment.get(name, "")).isdecimal():
            return int(text)
    return 1


def _launched(environment: Mapping[str, str]) -> Given:
    """Reads this machine's options from the environment of torchrun, Slurm or Kubernetes. Raises ConfigError for
    torchrun's elastic mode, and for several processes on a machine."""
    if "GROUP_RANK" in environment and "GROUP_WORLD_SIZE" in environment:
        if environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
            raise ConfigError(
                "torchrun: its restarts would end healthy machines; give it --max-restarts=0 and one number of --nnodes"
            )
        if environment.get("LOCAL_WORLD_SIZE", "1") != "1":
            raise ConfigError("torchrun: one `pool machines` is one machine; give it --nproc-per-node=1")
        first = environment.get("MASTER_ADDR")
        port = PORT + 1 if environment.get("MASTER_PORT") == str(PORT) else PORT
        number, index = int(environment["GROUP_WORLD_SIZE"]), int(environment["GROUP_RANK"])
        return Given(number, index, None if first is None else str(Endpoint(first.strip("[]"), port)))
    nodes = next((environment[name] for name in _SLURM_NUMBERS if name in environment), None)
    if "SLURM_NODEID" in environment and nodes is not None:
        return Given(int(nodes), int(environment["SLURM_NODEID"]), _first_of_slurm(environment))
    if "JOB_COMPLETION_INDEX" in environment:
        return Given(machine=int(environment["JOB_COMPLETION_INDEX"]))
    return Given()


def _first_of_slurm(environment: Mapping[str, str]) -> str | None:
    """Returns the host name of the first node of Slurm's step, or of its job. None if Slurm names none. Raises
    ConfigError."""
    name = next((name for name in _SLURM_LISTS if environment.get(name)), None)
    if name is None:
        return None
    try:
        return next(expand_hosts(environment[name].strip()))
    except ValueError as error:
        raise ConfigError(f"{name}: {environment[name]}: {error}; name the first machine by --first") from None

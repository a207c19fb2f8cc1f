"""Finds this machine's rank in a run on several, from the command line and from the launcher's environment.

Options that are not given are taken from the environment of torchrun, Slurm or Kubernetes: the number of machines, the
index of this one, and the first machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pool.errors import ConfigError
from pool.machines.addresses import PORT, Endpoint, find_local_address, parse_endpoint, resolve_host
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
class MachineOptions:
    """Holds the options of the command line, of which some may be missing (None)."""

    machines: int | None = None
    machine: int | None = None
    first: str | None = None  # HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT
    interface: str | None = None
    key: Path | None = None
    port: int | None = None  # port at which the supervisor listens; the coordinator takes the next one


def join_machines(options: MachineOptions, environment: Mapping[str, str]) -> MachineGroup:
    """Checks the options and connects to the other machines of the run.

    Raises ConfigError, of which UnavailableError if the port is in use.
    """
    launched = _read_launcher(environment)
    machines = launched.machines if options.machines is None else options.machines
    machine = launched.machine if options.machine is None else options.machine
    first = launched.first if options.first is None else options.first
    required = {"--machines": machines, "--machine": machine, "--first": first, "--key": options.key}
    missing = [option for option, value in required.items() if value is None]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)}: needed for a run on several machines; --first is the host of machine 0, as the "
            "others reach it, and `pool machines --new-key FILE` makes a key"
        )
    assert machines is not None
    assert machine is not None
    assert first is not None
    assert options.key is not None
    if machines < 2:
        raise ConfigError(f"--machines: {machines}; a run on one machine is for pool train")
    if not 0 <= machine < machines:
        raise ConfigError(f"--machine: {machine}; of {machines} machines the last one is {machines - 1}")
    endpoint = parse_endpoint(first)
    addresses = resolve_host(endpoint.host)
    host = find_local_address(options.interface, endpoint.host, addresses)
    if options.port is not None and machine == 0 and options.port != endpoint.port:
        raise ConfigError(f"--port: {options.port}; machine 0 listens at the port of --first, {endpoint.port}")
    rank = MachineRank(machines, machine, host, read_key(options.key), port=options.port or 0)
    return MachineGroup(rank, endpoint, addresses)


def refuse_several_machines(environment: Mapping[str, str]) -> None:
    """Refuses a run on one machine that a launcher starts on several, since each would train the same. Raises
    ConfigError."""
    for name in _STARTED_NUMBERS:
        number = environment.get(name, "")
        if number.isdecimal() and int(number) > 1:
            raise ConfigError(
                f"{name} is {number}: on each of so many machines the same network would be trained; pool machines "
                f"trains one network on all, and for a run of its own on each unset {name}"
            )


def find_lone_machine_warning(environment: Mapping[str, str]) -> str:
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
        text = environment.get(name, "")
        if text.isdecimal():
            return int(text)
    return 1


def _read_launcher(environment: Mapping[str, str]) -> MachineOptions:
    """Reads this machine's options from the environment of torchrun, Slurm or Kubernetes. Raises ConfigError."""
    if "GROUP_RANK" in environment and "GROUP_WORLD_SIZE" in environment:
        return _read_torchrun(environment)
    nodes = next((environment[name] for name in _SLURM_NUMBERS if name in environment), None)
    if "SLURM_NODEID" in environment and nodes is not None:
        return MachineOptions(int(nodes), int(environment["SLURM_NODEID"]), _read_first_slurm_node(environment))
    if "JOB_COMPLETION_INDEX" in environment:  # Kubernetes
        return MachineOptions(machine=int(environment["JOB_COMPLETION_INDEX"]))
    return MachineOptions()


def _read_torchrun(environment: Mapping[str, str]) -> MachineOptions:
    """Reads this machine's options from torchrun's environment. Raises ConfigError for its elastic mode, and for
    several processes on a machine."""
    if environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        raise ConfigError(
            "torchrun: its restarts would end healthy machines; give it --max-restarts=0 and one number of --nnodes"
        )
    if environment.get("LOCAL_WORLD_SIZE", "1") != "1":
        raise ConfigError("torchrun: one `pool machines` is one machine; give it --nproc-per-node=1")
    host = environment.get("MASTER_ADDR")
    port = PORT + 1 if environment.get("MASTER_PORT") == str(PORT) else PORT  # torchrun itself listens at MASTER_PORT
    first = None if host is None else str(Endpoint(host.strip("[]"), port))
    return MachineOptions(int(environment["GROUP_WORLD_SIZE"]), int(environment["GROUP_RANK"]), first)


def _read_first_slurm_node(environment: Mapping[str, str]) -> str | None:
    """Returns the host name of the first node of Slurm's step, or of its job. None if Slurm names none. Raises
    ConfigError."""
    name = next((name for name in _SLURM_LISTS if environment.get(name)), None)
    if name is None:
        return None
    try:
        return next(expand_hosts(environment[name].strip()))
    except ValueError as error:
        raise ConfigError(f"{name}: {environment[name]}: {error}; name the first machine by --first") from None

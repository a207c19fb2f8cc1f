"""What several machines make of a step: measured with two, on links of a limited rate; computed for more.

    alone            a machine with as many batches a step as its share would be
    two machines     network namespaces, one core each, a link of --rates Mbit/s between them (root, iproute2)
    pays             what the exchange adds; at most 1.15 times bytes / rate + 2 ms

The table behind it is a model: the time of a share, and what is sent to all others at the line's rate, both ways at
once. It assumes that nothing of the exchange hides behind computing. Prints tables and a JSON line.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pool.machines.key import write_key
from tests.support.paths import ROOT, SAMPLE
from tests.support.runs import command
from tests.support.wait import wait_for

NAMES = ("sparsepool-a", "sparsepool-b")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 29500
STEPS = 12  # that a rate is measured over, behind the first
MACHINES = (1, 2, 3, 4, 8, 16, 32, 64)
RATES = (1, 10, 25, 100)  # Gbit/s, of the model
ALLOWED = (1.15, 0.002)  # times bytes / rate; and seconds more


@dataclass(frozen=True)
class Measured:
    """A rate of the link, and medians of a step."""

    mbit: int
    alone: float  # seconds
    together: float  # seconds
    sent_mb: float

    @property
    def line(self) -> float:
        """Seconds that the bytes take on the line."""
        return self.sent_mb * 8 / self.mbit

    @property
    def pays(self) -> float:
        return self.together - self.alone


def settings(l1: int, batch_size: int, batches: int) -> dict[str, Any]:
    return {
        "task": "stockfish",
        "data.train": [str(SAMPLE / "train.binpack")],
        "data.batch_size": batch_size,
        "data.threads": 1,
        "model.l1": l1,
        "train.steps": 1_000_000,
        "train.batches_per_step": batches,
        "train.checkpoint_every": 0,
        "pool.snapshot_steps": 0,
        "pool.devices": ["cpu"],
        "optimizer.name": "pool.optim.SparseAdam",
        "optimizer.args.lr": 1e-3,
    }


@contextlib.contextmanager
def namespaces(mbit: int) -> Iterator[None]:
    """Two of them, with a link of that rate between them."""
    _end_namespaces()
    try:
        for name in NAMES:
            _ip("netns", "add", name)
        _ip("link", "add", "to-b", "netns", NAMES[0], "type", "veth", "peer", "name", "to-a", "netns", NAMES[1])
        for name, link, address in zip(NAMES, ("to-b", "to-a"), ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", link)
            _ip("-n", name, "link", "set", link, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            limit = ["tbf", "rate", f"{mbit}mbit", "burst", "256kb", "latency", "200ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", link, "root", *limit], check=True)
        yield
    finally:
        _end_namespaces()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _end_namespaces() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def step_times(dirs: Sequence[Path], commands: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Runs these processes until there are enough steps: the median of a step, in seconds, and what it sent, in MB."""
    processes = [subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL) for line in commands]
    try:
        wait_for(lambda: len(_records(dirs[0])) > STEPS + 2, "enough steps", 600)
        records = _records(dirs[0])[2:]
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.5)  # its children end with it
    moments = [record["time"] for record in records]
    between = [later - earlier for earlier, later in itertools.pairwise(moments)]
    return median(between), median(record.get("sent_mb", 0.0) for record in records)


def _records(dir: Path) -> list[dict[str, Any]]:
    path = dir / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def measure(folder: Path, mbit: int, l1: int, batch_size: int, batches: int) -> Measured:
    """`batches`: a step, of two machines."""
    dir = folder / f"alone-{mbit}"
    alone, _ = step_times([dir], [["taskset", "-c", "0", *command(dir, settings(l1, batch_size, batches // 2))]])
    key = folder / f"{mbit}.key"
    write_key(key)
    place = ["--machines", "2", "--first", f"{ADDRESSES[0]}:{PORT}", "--key", str(key)]
    dir = folder / f"together-{mbit}"
    line = command(dir, settings(l1, batch_size, batches), name="machines")
    with namespaces(mbit):
        commands = [
            ["ip", "netns", "exec", name, "taskset", "-c", str(m), *line, *place, "--machine", str(m)]
            for m, name in enumerate(NAMES)
        ]
        together, sent = step_times([dir], commands)
    return Measured(mbit, alone, together, sent)


def modelled(share: float, sent_mb: float, machines: int, gigabits: float) -> float:
    """Seconds of a step: of the share, and of what is sent to all others."""
    return share + (machines - 1) * sent_mb * 8 / (gigabits * 1000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000], metavar="MBIT")
    parser.add_argument("--l1", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=4, help="of a step of two machines")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "taskset"))):
        sys.stderr.write("links of a limited rate need root, and iproute2 and util-linux\n")
        return 1
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        for mbit in arguments.rates:
            found.append(measure(Path(folder), mbit, arguments.l1, arguments.batch_size, arguments.batches))
    print(f"{'Mbit/s':>7}{'alone ms':>10}{'two ms':>9}{'sent MB':>9}{'line ms':>9}{'pays ms':>9}{'allowed':>9}")
    for each in found:
        allowed = ALLOWED[0] * each.line + ALLOWED[1]
        numbers = (1000 * each.alone, 1000 * each.together, each.sent_mb, 1000 * each.line, 1000 * each.pays)
        print(f"{each.mbit:7}" + "".join(f"{n:{w}.1f}" for n, w in zip(numbers, (10, 9, 9, 9, 9), strict=True)), end="")
        print(f"{1000 * allowed:9.1f}")
    share, sent = found[-1].alone, found[-1].sent_mb
    print(f"\nmodel: ms of a step, machines with {arguments.batches // 2} batches each, by Gbit/s")
    print(f"{'machines':>9}" + "".join(f"{rate:>9}" for rate in RATES))
    for machines in MACHINES:
        print(f"{machines:9}" + "".join(f"{1000 * modelled(share, sent, machines, rate):9.1f}" for rate in RATES))
    print(json.dumps({"benchmark": "scaling", "cores": os.cpu_count(), "measured": [asdict(each) for each in found]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What cards copy to one another: from and to memory as an exchange has it on each, by the exchange's own way, every
pair in both directions. The bytes are compared, for a driver may report no error and copy nothing.

`python -m benchmarks.gpu.card_copies KIND MODULE` is the process that does it, and ends with 0 if all has arrived.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import torch

from benchmarks.rotated import ROOT
from pool.device.plugins import add_devices
from pool.device.shared_memory import shared_memory_of
from pool.exchange.device.store import DeviceStore

NBYTES = (2 << 20) + 24
PATIENCE = 120  # seconds


def problem(kind: str, module: str) -> str:
    """Returns what has gone wrong, empty if nothing has, by a process of its own; `module` adds the kind of devices, if
    torch has it not."""
    command = [sys.executable, "-m", "benchmarks.gpu.card_copies", kind, module]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"nothing has arrived within {PATIENCE} s"
    words = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else words[-1] if words else f"the process ended with {done.returncode}"


def first_difference(stores: list[DeviceStore]) -> str:
    """Copies a version of the weights from each store to each other one, as the exchange sends pieces and as it fetches
    gradients. Returns in words what has not arrived, empty if all has."""
    for number, (source, target) in enumerate(permutations(stores, 2)):
        wanted = torch.randint(256, (NBYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(number))
        source.halves[0].copy_(wanted)
        target.halves[1].zero_()
        source.send(source.halves[0], [(target, target.halves[1])])
        target.received()
        fetched = target.fetch(source.halves[0], source)
        source.wait([target])
        for how, there in (("sent", target.halves[1]), ("fetched", fetched)):
            differ = int((there.cpu() != wanted).sum())
            if differ:
                return f"{source.device} to {target.device}: {differ:,} of {NBYTES:,} bytes differ when {how}"
    return ""


def main(kind: str, module: str) -> int:
    add_devices(module)
    shared = shared_memory_of(kind)
    if shared is None:
        print(f"two processes can't share the memory of {kind} devices", file=sys.stderr)
        return 1
    count = torch.get_device_module(kind).device_count()
    found = first_difference([DeviceStore(torch.device(kind, index), shared, NBYTES, 1) for index in range(count)])
    print(found, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

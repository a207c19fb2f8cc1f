"""`make gpu-bench`: what a machine's cards make of the kernels, the exchange and the pool. Under ten minutes.

`python -m benchmarks.gpu [--dry --module tests.gpu.fake.fakegpu]`; with --dry everything small, to try that it runs.
Prints each line when it is known and all of them in a table at the end; exits with 1 if something failed. An aim that
is missed is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch

from benchmarks.gpu import backward, model, pool_runs, probes, sparse_layer
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.report import Line, Section, lines_of, show


def sections(machine: Machine) -> list[Section]:
    """Those first that leave the cards to other processes: this one opens a card only when no run is to come."""
    return [
        Section("probes", lambda: probes.lines(machine)),
        Section("several cards", lambda: pool_runs.several_cards(machine)),
        Section("pool with one worker", lambda: pool_runs.one_worker(machine)),
        Section("sparse layer", lambda: sparse_layer.lines(machine)),
        Section("host's time in backward", lambda: backward.lines(machine)),
        Section("chain model", lambda: model.lines(machine)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="small, to try that all of it runs; figures mean nothing")
    parser.add_argument("--module", default="", help="of another kind of device, as testing.device_module")
    arguments = parser.parse_args()
    begin = time.monotonic()
    machine = Machine.found(arguments.module, dry=arguments.dry)
    name = torch.get_device_module(machine.kind).get_device_properties(0).name
    found: list[Line] = []
    for section in sections(machine):
        for line in lines_of(section):
            print(f"{line.what}: {line.found}", flush=True)
            found.append(line)
    minutes = (time.monotonic() - begin) / 60
    title = "a dry run: the figures mean nothing" if arguments.dry else f"{minutes:.1f} minutes"
    show(found, f"{machine.count} x {name}, torch {torch.__version__}; {title}")
    facts = {"benchmark": "gpu", "dry": arguments.dry, "card": name, "cards": machine.count}
    print(json.dumps({**facts, "lines": [vars(each) for each in found]}))
    return int(any(line.found.startswith("failed") for line in found))


if __name__ == "__main__":
    sys.exit(main())

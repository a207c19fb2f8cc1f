"""Whole runs of `pool train`: one worker against the same loop in one process, and several cards against one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import torch

from benchmarks.gpu.machine import Machine
from benchmarks.gpu.network import task_of
from benchmarks.gpu.report import Line, SkippedError
from benchmarks.rotated import ROOT, SAMPLE
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool.nn.batch import TensorBatch
from pool.task.task import Progress

ONE_PROCESS, TWO_CARDS = 0.95, 1.6  # aims: of the loop's speed; times one card's speed
EXCHANGES = ("host", "device", "local")  # of one card, whatever `auto` takes on this machine
OF_SEVERAL = (("host", ""), ("device", "first"), ("device", "all"))  # and on which cards
LONGEST = 240  # seconds of a run


def settings(machine: Machine, devices: Sequence[int], exchange: str, where: str = "") -> str:
    """Of a run that has a batch for each device in a step. `where`: which of them add up: first or all."""
    names = [f"{machine.kind}:{index}" for index in devices]
    return f"""
task = "stockfish"
model.l1 = {machine.size.width}
data.train = [{json.dumps(str(SAMPLE))}]
data.batch_size = {machine.size.samples}
data.threads = 2
optimizer.name = "pool.optim.Adam"
train.steps = {machine.size.steps}
train.batches_per_step = {len(devices)}
train.checkpoint_every = 0
pool.devices = {json.dumps(names)}
pool.exchange = "{exchange}"
pool.coordinator_device = "{names[0] if where == "first" else where}"
pool.snapshot_steps = 1000000
testing.device_module = {json.dumps(machine.module)}
"""


@cache
def positions_per_second(machine: Machine, devices: Sequence[int], exchange: str, where: str = "") -> float:
    """Of a run's later steps. Raises RuntimeError with the end of what a failed run says."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "run.toml"
        config.write_text(f'run.dir = "{folder}/run"\n{settings(machine, devices, exchange, where)}', encoding="utf-8")
        command = [sys.executable, "-m", "pool", "train", str(config)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST)
        if done.returncode:
            raise RuntimeError(f"pool train ended with {done.returncode}: {done.stderr.strip()[-160:]}")
        lines = (Path(folder) / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    times: list[float] = [record["time"] for record in map(json.loads, lines) if "loss" in record][len(lines) // 4 :]
    return len(devices) * machine.size.samples * (len(times) - 1) / (times[-1] - times[0])


def loop_positions_per_second(machine: Machine) -> float:
    """The loader, the network and torch's Adam in this process, on the device."""
    task = task_of(machine)
    torch.manual_seed(0)
    model = task.build_model().to(machine.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    stream = open_stream(data_config(batch_size=machine.size.samples, threads=2), [SAMPLE], 0)
    times = []
    for batch in read_batches(stream, machine.size.steps):
        times.append(time.perf_counter())
        there = TensorBatch.from_numpy(batch).to(machine.device)
        optimizer.zero_grad()
        task.loss(model, there, Progress(0, machine.size.steps)).backward()
        optimizer.step()
        if len(times) % 8 == 0:
            machine.synchronize()  # or the host would run far ahead
    machine.synchronize()
    stream.close()
    later = times[len(times) // 4 :]
    return machine.size.samples * len(later) / (time.perf_counter() - later[0])


def one_worker(machine: Machine) -> Iterator[Line]:
    pools = {exchange: positions_per_second(machine, range(1), exchange) for exchange in EXCHANGES}
    loop = loop_positions_per_second(machine)  # after the runs: from now on this process has the card open
    yield Line("the same loop in one process", f"{loop:,.0f} positions/s")
    for exchange, pool in pools.items():
        found = f"{pool / loop:.2f} of its speed ({pool:,.0f} positions/s)"
        yield Line(f"pool with one worker, exchange {exchange}", found, f"{ONE_PROCESS:g}", pool / loop >= ONE_PROCESS)


def counts(machine: Machine) -> list[int]:
    """Of cards, in the runs with several."""
    return sorted({2, machine.count}) if machine.count > 1 else []


def several_cards(machine: Machine) -> Iterator[Line]:
    if machine.count < 2:
        raise SkippedError("one card")
    one = positions_per_second(machine, range(1), "local")
    for exchange, where in OF_SEVERAL:
        for count in counts(machine):
            several = positions_per_second(machine, range(count), exchange, where)
            aim = TWO_CARDS / 2 * count
            found = f"{several / one:.2f} times one card ({several:,.0f} positions/s)"
            what = f"{count} cards, a batch each, exchange {exchange} {where}".rstrip()
            yield Line(what, found, f"{aim:.1f}", several / one >= aim)

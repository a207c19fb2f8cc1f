"""The host's time of a step of one card, in microseconds: forward, backward and outcome of a chess network, and its
step of Adam. No card is needed: launches go by the real cuda-bindings to a driver that does nothing, that of
tests/gpu/stub_driver, and tensors lie on the CPU, where torch's operations cost the host about what they cost it for a
card.

    python -m benchmarks.gpu.host_time [--network SFNNv5]

Time of this process alone, over many steps: medians, and the fastest. Needs g++ and `make cuda-tools`. Prints a table
and one line of JSON.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.networks import NETWORKS, tables
from benchmarks.rotated import ROOT, SAMPLE
from pool.kernels import backend
from pool.kernels.cuda import launcher
from pool.kernels.finite import Outcomes
from pool.kernels.reduction import Addend, Reduction
from pool.kernels.rule import step
from pool.nn.batch import TensorBatch
from pool.optim.adam import ADAM, adam_numbers
from pool.task.task import Progress
from tests.gpu.stub_driver.machine import Machine

PARTS = ("forward", "backward", "outcome", "Adam")
SAMPLES = 256  # the host's time does not depend on them
WARM = 20  # steps that are not counted
STUB = ROOT / "tests/gpu/stub_driver/libcuda.cpp"
OPTIONS = ("-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden")


class Step:
    """A step of a network on a device with kernels."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self._task = NETWORKS[name].create_task("fused")
        self._model = self._task.build_model()
        (batch,) = NETWORKS[name].batches(SAMPLE, SAMPLES, 1)
        self._batch = TensorBatch.from_numpy(batch).copy()
        parameters = list(self._model.parameters())
        self._outcomes = Outcomes(torch.device("cpu"), 2 * len(parameters) + 1)
        self._gradients: dict[Tensor, Addend] = {}
        self._fields: dict[Tensor, str] = {layer.weight: layer.field for layer in tables(self._model).values()}
        self._one = torch.ones(())
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._dense)  # type: ignore[no-untyped-call]
        for layer in tables(self._model).values():
            layer.rows_sink = self
        self._moments: dict[Tensor, list[Tensor]] = {p: [torch.zeros_like(p) for _ in range(3)] for p in parameters}
        settings = {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "decoupled_weight_decay": False}
        self._adam = adam_numbers(settings, 1, 1e-8)

    def _dense(self, parameter: nn.Parameter) -> None:
        if parameter.grad is not None:
            self._outcomes.check(parameter.grad)
            self._gradients[parameter] = Addend(0, parameter.grad, None)
            parameter.grad = None

    def accept_rows(self, weight: Tensor, rows: Tensor) -> None:
        """Rows sink."""
        self._outcomes.check(rows)
        numbers = self._batch.sparse[self._fields[weight]].touched
        self._gradients[weight] = Addend(0, rows, np.zeros(0, np.uint32), numbers)

    def seconds(self) -> tuple[float, ...]:
        """Of each part."""
        times = [time.process_time()]
        self._outcomes.start_group()
        self._outcomes.start_batch()
        loss = self._task.loss(self._model, self._batch, Progress(0, 1))
        times.append(time.process_time())
        loss.backward(self._one)  # type: ignore[no-untyped-call]
        times.append(time.process_time())
        self._outcomes.gather(loss.detach().view(1), [])
        times.append(time.process_time())
        with torch.no_grad():
            for parameter, gradient in self._gradients.items():
                mean, square, new = self._moments[parameter]
                step(ADAM, new, parameter.detach(), [mean, square], Reduction([gradient]), self._adam)
        times.append(time.process_time())
        return tuple(end - begin for begin, end in itertools.pairwise(times))


def measure(name: str, steps: int) -> dict[str, dict[str, float]]:
    """Microseconds of each part; in a process that finds the stub as libcuda.so.1."""
    torch.set_num_threads(1)
    machine, launched = Machine(1, 64 << 20), [0]
    machine.use(0)

    class Counting(launcher.CudaLauncher):
        def launch(self, *arguments: object) -> None:
            launched[0] += 1
            super().launch(*arguments)  # type: ignore[arg-type]

    with machine.in_place_of_torchs():
        torch._C._cuda_getCurrentRawStream = lambda _: 0  # type: ignore[assignment]  # a mock's call takes longer
        backend.NATIVE = "none"  # tensors on the CPU are the kernels'
        launcher.launcher_factories["cpu"] = lambda _: Counting(torch.device("cuda:0"))
        step = Step(name)
        for _ in range(WARM):
            step.seconds()
        launched[0] = 0
        gc.collect()
        gc.freeze()  # as the pool's processes do
        parts = [[1e6 * each for each in own] for own in zip(*(step.seconds() for _ in range(steps)), strict=True)]
    found = {
        part: {"median": statistics.median(own), "fastest": min(own)} for part, own in zip(PARTS, parts, strict=True)
    }
    whole = list(map(sum, zip(*parts, strict=True)))
    found["step"] = {"median": statistics.median(whole), "fastest": min(whole)}
    return found | {"launches": {"a step": launched[0] / steps}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="SFNNv5")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.network, arguments.steps)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["g++", *OPTIONS, "-o", Path(folder) / "libcuda.so.1", STUB], check=True)
        command = [sys.executable, "-m", "benchmarks.gpu.host_time", *sys.argv[1:], "--child"]
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "XDG_CACHE_HOME": folder}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.returncode
    found = json.loads(done.stdout.splitlines()[-1])
    table = Table("", "median us", "fastest us", title=f"host's time, {found['launches']['a step']:g} launches a step")
    for part in (*PARTS, "step"):
        table.add_row(part, f"{found[part]['median']:,.0f}", f"{found[part]['fastest']:,.0f}")
    Console(width=60).print(table)
    print(json.dumps({"network": arguments.network, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Many members in one run: a step of K small networks, and whole runs of K chess networks.

MLP: layers of 24, 200, 200, 200 and 22, or of another width in the middle, a batch of 32, K networks. Forward and
backward as `pool.ensemble.batched_members` computes them, and of one network after the other: by the same machinery,
and by the plainest loop over modules. The same losses in the same process, in turns; medians. No optimizer in any.

Runs: `pool train` of the task stockfish, loader included, one CPU worker of one thread. A run of K members against K
runs of one: positions x members a second. A run of one has steps of s + m: m, a member's own, is what its trace says of
forward, backward, the sum of gradients and the optimizer's step; s is the rest, which members share: loader, plan of
the batch, messages. K runs take K (s + m) where an ensemble takes s + Km; required: at least 0.9 of
K (s + m) / (s + Km). Steps are counted when a few seconds are over and each piece of memory has been written once.
"Own" is m in that run.

Prints two tables and one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.endless_run import Record, endless_run
from benchmarks.rotated import REAL, rotated_copies
from pool import _native
from pool.ensemble.batched_members import BatchedMembers
from pool.ensemble.execution import Execution, SequentialMembers
from pool.ensemble.execution_choice import MAX_WORK, MIN_MEMBERS, dense_parameters
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.task.task import Progress, Task

SAMPLES, INPUTS, OUTPUTS = 32, 24, 22
POSITIONS = 16384  # a batch of the runs
REQUIRED = 0.9
WARM_UP = 2.0  # seconds that are not counted, nor are the first steps:
WARM_UP_STEPS = 6  # that write to new memory
OWN = frozenset({"forward", "backward", "reduce", "optimize"})  # spans of a member
FEWEST_STEPS = 8  # that are counted


class MlpTask(Task):
    def __init__(self, width: int) -> None:
        self._widths = (INPUTS, width, width, width, OUTPUTS)

    def build_model(self) -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(self._widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        return functional.mse_loss(model(batch.dense["inputs"]), batch.dense["outputs"])


def steps_of(width: int, count: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """Ways to make the gradients of `count` networks; each leaves them in .grad."""
    task = MlpTask(width)
    with device:
        members = [Member(task, task.build_model(), seed, None) for seed in range(count)]
        dense_fields = {"inputs": torch.randn(SAMPLES, INPUTS), "outputs": torch.randn(SAMPLES, OUTPUTS)}
    batch = TensorBatch(0, {}, dense_fields, (0, SAMPLES))
    sequential = SequentialMembers(members, device)

    def execute(execution: Execution) -> None:
        for losses in execution.losses(batch, Progress(0, 1)):
            losses.sum().backward()  # type: ignore[no-untyped-call]

    def plain() -> None:
        for member in members:
            output = member.model(batch.dense["inputs"])
            functional.mse_loss(output, batch.dense["outputs"]).backward()  # type: ignore[no-untyped-call]

    def clean(step: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for member in members:
                member.model.zero_grad()
            step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        return run

    together = BatchedMembers(members, sequential)
    ways: dict[str, Callable[[], object]] = {
        "plain loop": plain,
        "one by one": lambda: execute(sequential),
        "together": lambda: execute(together),
    }
    return {name: clean(step) for name, step in ways.items()}


def seconds_of(steps: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Medians; the ways take turns."""
    for step in steps.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["together"]) < 5:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def small_networks(console: Console, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    _native.keep_freed_memory()  # as a worker does
    table = Table("width", "members", "plain loop, ms", "one by one, ms", "together, ms", "gain", "chosen", title="MLP")
    results = []
    for width, count in itertools.product(arguments.widths, arguments.members):
        found = seconds_of(steps_of(width, count, device), arguments.seconds / 4)
        gain = found["plain loop"] / found["together"]
        work = SAMPLES * sum(parameter.numel() for parameter in dense_parameters(MlpTask(width).build_model()))
        pays = count >= MIN_MEMBERS[device.type] and work <= MAX_WORK[device.type]
        chosen = "together" if pays else "one by one"
        table.add_row(str(width), str(count), *(f"{1e3 * each:.2f}" for each in found.values()), f"{gain:.2f}", chosen)
        results.append({"width": width, "members": count, **found, "gain": gain, "chosen": chosen})
    console.print(table)
    return results


def step_seconds(members: int, l1: int, data: Path, seconds: float) -> tuple[float, float]:
    """A step of a run that is stopped from outside: the mean after the warm-up; and how much of it is a member's."""
    settings = f"""
task = "stockfish"
data.train = ["{data}"]
data.chess.features = "HalfKAv2_hm"
data.batch_size = {POSITIONS}
data.threads = 1
model.l1 = {l1}
optimizer.name = "pool.optim.Adam"
optimizer.args = {{ lr = 1e-3 }}
train.batches_per_step = 1
pool.devices = ["cpu"]
pool.threads = 1
{f"ensemble.members = {members}" if members > 1 else ""}
"""
    with endless_run(settings, trace=True) as run:
        later = after_warm_up(run.until(lambda records: enough(records, seconds)))
        spans = run.spans()
    steps = range(later[1]["step"], later[-1]["step"] + 1)  # each from the end of the one before
    own = sum(span["dur"] for span in spans if span["name"] in OWN and span["args"]["step"] + 1 in steps) / 1e6
    return (later[-1]["time"] - later[0]["time"]) / len(steps), own / len(steps) / members


def after_warm_up(steps: Sequence[Record]) -> Sequence[Record]:
    return [step for step in steps[WARM_UP_STEPS:] if step["time"] > steps[0]["time"] + WARM_UP]


def enough(steps: Sequence[Record], seconds: float) -> bool:
    later = after_warm_up(steps)
    return len(later) > FEWEST_STEPS and later[-1]["time"] - later[0]["time"] >= seconds


def runs(console: Console, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    times: dict[tuple[int, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rotated.binpack"
        rotated_copies(REAL, data)
        for _, l1, members in itertools.product(range(arguments.repeats), arguments.l1, arguments.runs):
            times.setdefault((l1, members), []).append(step_seconds(members, l1, data, arguments.seconds))
    columns = (
        "l1",
        "members",
        "ms a step",
        "own, ms",
        "positions x members/s",
        "x separate",
        "K(s+m) / (s+Km)",
        "share",
    )
    table = Table(*columns, title=f"stockfish, {POSITIONS:,} positions a step")
    results = []
    for l1 in arguments.l1:
        found = {
            members: [statistics.median(each) for each in zip(*times[l1, members], strict=True)]
            for members in arguments.runs
        }
        results += summary(l1, found)
    for each in results:
        required = "" if each["members"] == 1 else f" (at least {REQUIRED})"
        table.add_row(
            str(each["l1"]),
            str(each["members"]),
            f"{1e3 * each['seconds']:.1f}",
            f"{1e3 * each['own']:.1f}",
            f"{each['rate']:,.0f}",
            f"{each['gain']:.2f}",
            f"{each['wanted']:.2f}",
            f"{each['share']:.2f}{required}",
        )
    console.print(table)
    for l1 in arguments.l1:
        shared, own = next((each["s"], each["m"]) for each in results if each["l1"] == l1)
        console.print(f"l1 = {l1}: s = {1e3 * shared:.1f} ms, m = {1e3 * own:.1f} ms")
    return results


def summary(l1: int, found: Mapping[int, Sequence[float]]) -> list[dict[str, Any]]:
    """`found`, by number of members: seconds of a step, and of them a member's own."""
    alone, own = found[1]
    shared = alone - own
    results = []
    for members, (seconds, own_here) in found.items():
        gain = members * alone / seconds
        wanted = members * alone / (shared + members * own)
        rate = members * POSITIONS / seconds
        row = {"l1": l1, "members": members, "seconds": seconds, "own": own_here, "rate": rate, "gain": gain}
        results.append({**row, "wanted": wanted, "share": gain / wanted, "s": shared, "m": own})
    return results


def numbers(console: Console, arguments: argparse.Namespace) -> dict[str, Sequence[Mapping[str, Any]]]:
    parts = {"mlp": small_networks, "runs": runs}
    return {name: part(console, arguments) for name, part in parts.items() if arguments.only in (None, name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("mlp", "runs"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="of the MLP")
    parser.add_argument("--widths", type=int, nargs="+", default=[200, 64, 16], help="of the MLP")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64], help="of the MLP")
    parser.add_argument("--l1", type=int, nargs="+", default=[32, 256], help="of the runs")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 4, 8, 16], help="members of the runs; 1 is needed")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a run at least; of four MLPs")
    parser.add_argument("--repeats", type=int, default=3, help="of each run")
    arguments = parser.parse_args()
    console = Console(width=120)
    print(json.dumps({"benchmark": "ensemble", **numbers(console, arguments)}))


if __name__ == "__main__":
    main()

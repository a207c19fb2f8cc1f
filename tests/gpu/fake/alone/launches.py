"""What a worker gives a device to do in a step of 16,384 positions, the project's own kernels among it: forward, loss,
backward, whether all is finite; and what a coordinator does that adds up and steps there."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from loader.stream.schema import BatchSchema, DenseField, SparseField
from loader.stream.slots import allocate_slots, write_batch
from pool.exchange.plan import build_plan
from pool.exchange.tensors import tensor_specs, trained_parameters, view_array_as_tensors
from pool.kernels.cuda.driver import PrimaryContext
from pool.kernels.cuda.sparse import column_sums
from pool.tasks.chess.perspective.config import LossConfig as PerspectiveLoss
from pool.tasks.chess.perspective.config import ModelConfig as PerspectiveConfig
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.stockfish import create_task
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.training.config import LossConfig, TableDtype
from tests.gpu.fake import fakegpu, kernels
from tests.gpu.fake.rig import MODES, Inputs, TakingRig, difference
from tests.gpu.fake.stepping_rig import PER_STEP, STEPS, SteppingRig

SAMPLES = 16_384
BUCKETED: dict[str, Any] = {"features": "chess768", "output_buckets": "material_count_8", "width": 16}
KINGS = (0,) * 32 + (1,) * 32


def perspective(**settings: Any) -> PerspectiveTask:
    return PerspectiveTask(PerspectiveConfig(**{"king_buckets": (0,) * 64, **BUCKETED, **settings}), PerspectiveLoss())


# Launches of our own and of torch's operations: the bar for whoever changes them. docs/explanation/gpu.md has the sums.
TASKS = {
    "Stockfish 15.1": (lambda: create_task(ModelConfig(version="SFNNv5", l1=16), LossConfig()), 23, 0),
    "Stockfish 19": (lambda: create_task(ModelConfig(version="SFNNv16", l1=16), LossConfig()), 23, 0),
    "king buckets": (lambda: perspective(king_buckets=KINGS), 17, 0),
    "multi-layer": (lambda: perspective(activation="pairwise", hidden=(16, 32)), 17, 0),
    "fake quantization": (
        lambda: perspective(activation="pairwise", hidden=(16, 32), fake_quantization=("rows", "dense", "activations")),
        19,
        0,
    ),
    "Stockfish 15.1, rounded": (
        lambda: create_task(ModelConfig(l1=16, fake_quantization=("rows", "dense")), LossConfig()),
        25,
        0,
    ),
    "Stockfish 15.1, cut": (
        lambda: create_task(ModelConfig(l1=16, fake_quantization=("rows", "dense", "activations")), LossConfig()),
        25,
        0,
    ),
    "Stockfish 15.1, rows of bfloat16": (
        lambda: create_task(ModelConfig(l1=16, table_dtype="bfloat16"), LossConfig()),
        24,
        0,
    ),
}


def inputs(task: Any, samples: int, count: int = 1) -> Inputs:
    model = task.build_model()
    table = next(model.children())
    buckets = 8
    dense = (DenseField("score", "int16"), DenseField("result", "int8"))
    features = SparseField("features", table.num_features, 4, bags_per_sample=2)
    schema = BatchSchema(samples, (features,), dense, buckets)
    rng, slots = np.random.default_rng(1), allocate_slots(schema, count)
    for number, slot in enumerate(slots):
        bags = np.sort(rng.integers(0, table.num_features, (2 * samples, 2)), axis=1)
        bags[bags[:, 0] == bags[:, 1]] = (0, 1)
        write_batch(
            schema,
            slot,
            number,
            {"features": (np.arange(0, 4 * samples + 1, 2), bags.reshape(-1))},
            {
                "score": rng.integers(-500, 500, samples).astype(np.int16),
                "result": rng.integers(-1, 2, samples).astype(np.int8),
            },
            np.linspace(0, samples, buckets + 1).astype(np.int64),
        )
    plan = build_plan(*tensor_specs(model), [1 << 20], split_tables=True)
    weights = np.zeros(plan.nbytes, np.uint8)
    for place, (_, parameter) in zip(
        view_array_as_tensors(weights, plan.parameters), trained_parameters(model), strict=True
    ):
        place.copy_(parameter.detach())
    return Inputs(task, schema, plan, slots, [weights] * count)


@pytest.fixture(autouse=True)
def _kernels() -> None:
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(1)
    kernels.use()


@pytest.mark.parametrize("bound", [True, False])
def test_a_launch_is_refused_in_a_thread_without_a_context(bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA's driver does where nothing of torch has run, so also before the first operation of a backward. Without
    what the launcher does about it the first step of every network for chess ended here."""
    if not bound:
        monkeypatch.setattr(PrimaryContext, "bind", lambda _: None)
    matrix = torch.ones(40, 8, device="fakegpu:0")
    with ThreadPoolExecutor(1) as thread:
        error = thread.submit(column_sums, matrix).exception()
    assert str(error) == ("None" if bound else "CUDA error: CUDA_ERROR_INVALID_CONTEXT (cuLaunchKernel)")
    assert column_sums(matrix).tolist() == [40.0] * 8  # of torch something has run in this thread


@pytest.mark.parametrize("name", TASKS)
def test_launches_of_a_workers_step(name: str) -> None:
    make, own, others = TASKS[name]
    torch.manual_seed(1)
    rig = TakingRig(inputs(make(), SAMPLES))
    rig.train()  # what is made once
    before, already = fakegpu.counters(), len(kernels.launched("fakegpu:0"))
    (done,) = rig.train()
    counted, launched = fakegpu.counters() - before, kernels.launched("fakegpu:0")[already:]
    rig.close()
    assert done.unsound == [""]
    assert (len(launched), counted.kernels - len(launched)) == (own, others), Counter(launched)
    assert (counted.copies_within, counted.pageable_copies) == (0, 0)


def test_a_step_on_the_device_has_the_bits_of_the_cpus_in_few_launches() -> None:
    """Folds and steps of a whole network by the kernels' sources, against the CPU's kernels: one launch for a dense
    parameter, two for a table's bucket."""
    make, _, _ = TASKS["Stockfish 15.1"]
    torch.manual_seed(1)
    given = inputs(make(), 300, STEPS * PER_STEP)
    found = {}
    for kind in ("host", "local"):
        rig = SteppingRig(given, kind, early=False)  # type: ignore[arg-type]
        already = len(kernels.launched("fakegpu:0"))
        found[kind] = rig.train()
        launched = Counter(kernels.launched("fakegpu:0")[already:])
        rig.close()
    assert found["local"].tensors == found["host"].tensors
    parts = [given.plan.parameters[number] for bucket in given.plan.buckets for number in bucket.parameters]
    dense = sum(part.sparse_field is None for part in parts)
    wanted = {
        "step": STEPS * dense,
        "step_rows": STEPS * (len(parts) - dense),
        "find_rows": STEPS * (len(parts) - dense),
    }
    assert {name: launched[name] for name in (*wanted, "reduce", "reduce_rows")} == {
        **wanted,
        "reduce": 0,
        "reduce_rows": 0,
    }


@pytest.mark.parametrize(("batches_per_group", "table_dtype"), [(1, "float32"), (2, "float32"), (1, "bfloat16")])
def test_kernels_give_what_a_cpu_gives_in_any_mode(batches_per_group: int, table_dtype: TableDtype) -> None:
    """To float rounding; no thread that computes waits, no copy is pageable."""
    torch.manual_seed(1)
    given = inputs(create_task(ModelConfig(l1=16, table_dtype=table_dtype), LossConfig(weight_boost=1.0)), 300, 4)
    rig = TakingRig(given, "cpu", batches_per_group=batches_per_group)
    wanted = rig.train()
    for mode in ("only what is waited for", "short delays"):
        fakegpu.configure(delay_us=0, lazy=0)
        fakegpu.configure(**MODES[mode].settings)
        rig = TakingRig(given, batches_per_group=batches_per_group)
        own, before, waits = rig.event_waiter.native_id, fakegpu.counters(), fakegpu.waits_by_thread()
        found = rig.train()
        rig.close()
        others = {thread for thread, count in fakegpu.waits_by_thread().items() if count > waits.get(thread, 0)} - {own}
        assert (difference(found, wanted), others) == ("", set()), mode
        assert (fakegpu.counters() - before).pageable_copies == 0
    fakegpu.configure(delay_us=0, lazy=0)

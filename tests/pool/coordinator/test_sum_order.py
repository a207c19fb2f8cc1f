"""The order of a step's sum (I2): a fixed tree over the batches, whatever arrives when and whoever is left out."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from loader.stream.schema import BatchSchema
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.coordinator.scheduler.actions import Reduce, Update
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.step_progress import AssignedGroup, StepProgress
from pool.coordinator.update.bucket_steps import create_bucket_steps
from pool.coordinator.update.stopwatch import Stopwatch
from pool.exchange.host.coordinator import HostCoordinator
from pool.exchange.host_memory import HostMemory
from pool.exchange.layout import Layout
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.exchange.tensors import view_array_as_tensors
from pool.kernels.tree import join_into_nodes, max_nodes, tree_sum
from pool.metrics.validation_pass import ValidationPass
from pool.optim.buckets import BucketOptimizers
from pool.protocol.messages import Assignment
from tests.support.run_plans import TREE

Floats = npt.NDArray[np.float32]

ROWS, COLUMNS, BIAS = 40, 24, 100
SPECS = [
    TensorSpec("table", (ROWS, COLUMNS), "float32", 4, "features"),
    TensorSpec("bias", (BIAS,), "float32", 4),
    TensorSpec("double", (5,), "float64", 8),
]
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sum, then step": {"optimizer": {"name": "torch.optim.SGD", "args": {"lr": 1.0}}},
    "clipped": {"optimizer": {"name": "pool.optim.Adam"}, "train": {"clip_value": 1e30}},
    "at the end of the step": {"optimizer": {"name": "pool.optim.Adam"}, "train": {"clip_norm": 1e30}},
    "with its norm": {"optimizer": {"name": "pool.optim.RangerLite"}},
    "one pass": {"optimizer": {"name": "pool.optim.Adam"}},
    "touched rows": {"optimizer": {"name": "pool.optim.SparseAdam"}},
}


def oracle(gradients: dict[int, Floats]) -> Floats:
    """The sum of a step by its batches' places, by definition and nothing else: pairs, pairs of pairs, and so on."""
    while list(gradients) != [0]:
        above: dict[int, Floats] = {}
        for place in sorted(gradients):
            above[place // 2] = above[place // 2] + gradients[place] if place // 2 in above else gradients[place]
        gradients = above
    return gradients[0]


class NoTiming:
    def reducing(self, step: int, bucket: int) -> AbstractContextManager[None]:
        assert step == 0
        assert bucket >= 0
        return nullcontext()

    optimizing = reducing


class Step:
    """Step 0 of `count` batches with gradients of very different magnitudes, from decisions to weights."""

    def __init__(self, count: int, config: Config, seed: int) -> None:
        self.count = count
        self.draw = random.Random(seed)
        rng = np.random.default_rng(seed)
        specs = SPECS if "torch" in config.optimizer.name else SPECS[:2]  # ours are for float32
        self.plan: Plan = build_plan(specs, [], [64, 1600], split_tables=True)
        memory = {(batch, 0): np.zeros(self.plan.nbytes, np.uint8) for batch in range(count)}
        self.touched = [np.flatnonzero(rng.random(ROWS) < 0.6).astype(np.uint16) for _ in range(count)]
        self.gradients = {}
        for batch in range(count):
            for tensor in view_array_as_tensors(memory[batch, 0], self.plan.parameters):
                tensor.copy_(torch.from_numpy(rng.standard_normal(tensor.shape) * 10.0 ** rng.integers(-3, 4)))
            self.gradients[batch] = view_array_as_tensors(memory[batch, 0].copy(), self.plan.parameters)
            missing = np.setdiff1d(np.arange(ROWS), self.touched[batch])
            view_array_as_tensors(memory[batch, 0], self.plan.parameters)[0][missing] = torch.nan
        self.exchange = HostCoordinator(
            Layout(BatchSchema(count, (), ()), (self.plan,)).member_layouts[0],
            HostMemory([np.zeros(self.plan.nbytes, np.uint8) for _ in range(2)], memory),
            touched_rows=lambda taken, _: self.touched[taken.batches[0]],
            publish=lambda _: None,
        )
        parameters = [nn.Parameter(torch.zeros(p.shape, dtype=getattr(torch, p.dtype))) for p in self.plan.parameters]
        self.optimizers = BucketOptimizers(self.plan, parameters, config.optimizer, config.run_schedule)
        stopwatch = cast("Stopwatch", NoTiming())
        self.steps = create_bucket_steps(config, self.plan, self.optimizers, self.exchange, stopwatch)
        member_of = (0,) * len(self.plan.buckets)
        self.book = StepProgress(0, Rules(1, count, member_of, 1, False, 0, ValidationPass(0, 1), on_bad_batch="skip"))
        self.work: dict[int, AssignedGroup] = {}
        self.parts = 0

    def run(self, leave_out: set[int]) -> None:
        """Batches arrive in any order; those of `leave_out` in the midst of it turn out to be of no use."""
        arrivals = self.draw.sample(range(self.count), self.count)
        for batch in arrivals:
            self.work[batch] = AssignedGroup(Assignment("train", 0, (batch,), 0, batch + 1), batch)
            self.work[batch].buckets.update(range(len(self.plan.buckets)))
            self.advance()
            if batch in leave_out:
                list(self.book.leave_out(batch, [0], self.work.get))
            else:
                self.book.losses[batch] = (0.0,)
            self.advance()
        assert self.book.is_complete
        if self.steps.global_norm_step is not None:
            self.steps.global_norm_step.step(0)

    def advance(self) -> None:
        for action in self.book.advance(self.work.get, out_of_slots=self.draw.random() < 0.7):
            if isinstance(action, Reduce):
                self.parts += not action.is_last
                self.steps.buckets[action.bucket].reduce(action)
            elif isinstance(action, Update):
                self.steps.buckets[action.bucket].update(action)

    def sums(self, left_out: set[int]) -> list[Floats]:
        """What the oracle says of each parameter, as mean."""
        batches = [batch for batch in range(self.count) if batch not in left_out]
        found = []
        for index in range(1, len(self.plan.parameters)):
            found.append(oracle({b: self.gradients[b][index].numpy() for b in batches}))
        table = np.zeros((ROWS, COLUMNS), np.float32)
        for row in range(ROWS):
            rows = {b: self.gradients[b][0][row].numpy() for b in batches if row in self.touched[b]}
            if rows:
                table[row] = oracle(rows)
        scale = 1.0 / len(batches)
        return [total if scale == 1 else total * total.dtype.type(scale) for total in (table, *found)]

    def wanted(self, config: Config, left_out: set[int]) -> list[torch.Tensor]:
        """The weights after a step with the oracle's sums, all rows of a table in one piece."""
        parameters = [nn.Parameter(torch.zeros(p.shape, dtype=getattr(torch, p.dtype))) for p in self.plan.parameters]
        optimizers = BucketOptimizers(self.plan, parameters, config.optimizer, config.run_schedule)
        for parameter, total in zip(parameters, self.sums(left_out), strict=True):
            parameter.grad = torch.from_numpy(total)
        for b, bucket in enumerate(self.plan.buckets):
            for index, piece in zip(bucket.parameters, optimizers.parameters[b], strict=True):
                gradient = parameters[index].grad
                assert gradient is not None
                piece.grad = gradient if bucket.rows is None else gradient[bucket.rows[0] : bucket.rows[1]]
            optimizers.step(b)
        return [parameter.data for parameter in parameters]


def config_of(kind: str) -> Config:
    return parse_config({**TREE, **OPTIMIZERS[kind]}, "test")


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("count", range(1, 10))
def test_any_order_of_arrival_gives_the_sums_of_the_tree(count: int, kind: str) -> None:
    config = config_of(kind)
    parts = 0
    for seed in range(8):
        step = Step(count, config, seed)
        left_out = set(step.draw.sample(range(count), step.draw.randint(0, min(2, count - 1)))) if seed % 2 else set()
        step.run(left_out)
        parts += step.parts
        for tensor, wanted in zip(step.exchange.weights(1), step.wanted(config, left_out), strict=True):
            assert tensor.numpy().tobytes() == wanted.numpy().tobytes(), f"seed {seed}, without {left_out}"
    assert parts > 0 or count == 1


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_step_without_batches_leaves_the_weights_though_the_one_before_had_some(kind: str) -> None:
    """All of its batches were left out: nothing is left of the sum before."""
    step = Step(3, config_of(kind), seed=1)
    step.run(set())
    assert any(tensor.any() for tensor in step.exchange.weights(1))
    for b, bucket in enumerate(step.steps.buckets):
        bucket.update(Update(0, b, num_batches=0, reduction=None))
    if step.steps.global_norm_step is not None:
        step.steps.global_norm_step.step(0)
    for old, new in zip(step.exchange.weights(0), step.exchange.weights(1), strict=True):
        assert torch.equal(old, new)


def test_the_order_of_nine_is_pairs_of_pairs() -> None:
    text = tree_sum(range(9), [str(place) for place in range(9)], lambda left, right: f"({left}{right})")
    assert text == "((((01)(23))((45)(67)))8)"
    assert tree_sum([1, 2, 3, 6], list("1236"), lambda left, right: f"({left}{right})") == "((1(23))6)"


@pytest.mark.parametrize("count", range(1, 40))
def test_the_memory_for_sums_is_enough_for_a_step_added_up_batch_by_batch(count: int) -> None:
    class At:
        def __init__(self, leaf: int) -> None:
            self.leaf = leaf

    most = 0
    for seed in range(20):
        draw = random.Random(seed)
        found: list[At] = []
        for leaf in sorted(draw.sample(range(count), draw.randint(1, count))):
            if leaf < count - 1:  # with the last one the sum is complete
                found = [node[0] for node in join_into_nodes([*found, At(leaf)], range(leaf + 1))]
                most = max(most, len(found))
    assert most <= max_nodes(count)

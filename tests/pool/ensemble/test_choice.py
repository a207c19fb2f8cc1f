"""Which ensembles are computed together, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.ensemble import execution_choice
from pool.ensemble.batched_members import BatchedMembers
from pool.ensemble.execution import Execution, SequentialMembers
from pool.ensemble.execution_choice import choose_execution
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.task.task import Progress, Task
from pool.tasks.chess.stockfish import halfka, versions
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.task import StockfishTask
from pool.tasks.chess.training.config import LambdaJitter, LambdaPart, LossConfig
from pool.tasks.chess.training.score_share import score_share
from tests.pool.ensemble.models import SCHEMA, TASKS, InTurn, Written, batch_of, members_of, toy, written


def chosen(task: Task, settings: Sequence[object] = (None,) * 8) -> str:
    """What is said; it fits to what is done."""
    members = [replace(each, settings=own) for each, own in zip(members_of(task, len(settings)), settings, strict=True)]
    for member in members:
        member.model.eval()
    before = torch.random.get_rng_state()
    buffers = [buffer.clone() for member in members for buffer in member.model.buffers()]
    sequential = InTurn(members)
    execution, line = choose_execution(members, SCHEMA, sequential)
    assert isinstance(execution, BatchedMembers) == (line == "the dense layers of all members are computed together")
    assert isinstance(execution, BatchedMembers) or execution is sequential
    assert "\n" not in line
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(parameter.grad is None for member in members for parameter in member.model.parameters())
    now = [buffer for member in members for buffer in member.model.buffers()]
    assert all(torch.equal(buffer, old) for buffer, old in zip(now, buffers, strict=True))
    return line.removeprefix("members are computed one after the other: ")


@pytest.mark.parametrize("task", TASKS)
def test_narrow_layers_are_computed_together(task: str) -> None:
    assert chosen(TASKS[task]()) == "the dense layers of all members are computed together"


class Looking(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out if out.sum() > 0 else -out


class Taking(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out * out.abs().max().item()


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004
        return grad * 2


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _Doubled.apply(super().forward(x))  # type: ignore[no-untyped-call]
        return out


class Adding(nn.Linear):
    """Adds up in a tensor that is no buffer."""

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        total = torch.zeros(8)
        with torch.no_grad():
            total.add_(out.sum(0))
        return out + total


class Scaled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.mul_(0.5)
        return super().forward(x)


class Raising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
        raise LookupError("the key\nis not there")


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (written(lambda: nn.Linear(8, 8), nn.Dropout), "the layer rest.1 (Dropout) draws random numbers"),
        (
            written(lambda: Looking(8, 8)),
            "the layer rest.0 (Looking) decides by numbers that differ from member to member",
        ),
        (
            written(lambda: Taking(8, 8)),
            "the layer rest.0 (Taking) takes numbers out of tensors that differ from member to member",
        ),
        (
            written(lambda: Doubled(8, 8)),
            "the layer rest.0 (Doubled) uses an autograd.Function that has no rule for vmap",
        ),
        (
            written(lambda: Adding(8, 8)),
            "the layer rest.0 (Adding) writes into a tensor that all members share",
        ),
        (written(lambda: Scaled(8, 8)), "the task's loss raises RuntimeError: rest.0.weight is changed in place"),
        (written(Raising), "the layer rest.0 (Raising) raises LookupError: the key is not there"),
        (written(), "there are no dense layers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_not_be_computed_together_is_named(task: Task, line: str) -> None:
    assert chosen(task).removesuffix(" for a batch of zeros") == line


def test_members_that_all_have_other_settings_are_computed_alone() -> None:
    few = "no more than {} have the same task settings and attributes; together is faster from 8 on"
    assert chosen(toy(), [*range(8)]) == few.format(1)
    assert chosen(toy(), [1, *[2] * 7]) == few.format(7)
    assert chosen(toy(), [1, *[2] * 8]).startswith("the dense layers")


def test_wide_layers_keep_a_processor_busy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = sum(parameter.numel() for parameter in execution_choice.dense_parameters(members_of(toy(), 1)[0].model))
    monkeypatch.setitem(execution_choice.MAX_WORK, "cpu", numbers * SCHEMA.batch_size - 1)
    assert chosen(toy()) == (
        f"the dense layers of each take {numbers * SCHEMA.batch_size:,} multiply-adds a batch; with more than "
        f"{numbers * SCHEMA.batch_size - 1:,} that is faster"
    )
    monkeypatch.setitem(execution_choice.MAX_WORK, "cpu", numbers * SCHEMA.batch_size)
    assert chosen(toy()).startswith("the dense layers of all")


def test_native_code_of_a_task_serves_its_members_one_after_the_other() -> None:
    schema = BatchSchema(
        16,
        (SparseField("features", halfka.INPUTS, 32, bags_per_sample=2),),
        (DenseField("score", "float32"), DenseField("result", "float32")),
        num_buckets=versions.NUM_BUCKETS,
    )
    task = StockfishTask(ModelConfig(l1=32), LossConfig())
    model = task.build_model()
    members = [Member(task, model, seed, None) for seed in range(8)]
    execution, line = choose_execution(members, schema, InTurn(members))
    assert "the model (StockfishModel) uses an autograd.Function that has no rule for vmap" in line
    assert not isinstance(execution, BatchedMembers)


class Noisy(Written):
    """Its target is weighed by lambda."""

    def __init__(self, config: LossConfig) -> None:
        super().__init__(lambda: nn.Linear(8, 8))
        self._config = config

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        target = batch.dense["target"]
        loss: Tensor = (model(batch) - score_share(self._config, progress, target) * target).square().mean()
        return loss


@pytest.mark.parametrize("jitter", [LambdaJitter(step=0.1), LambdaJitter(sample=0.1)], ids=["step", "sample"])
@pytest.mark.parametrize("begin", [0.0, 1.0])
def test_members_with_noise_around_lambda_are_computed_in_turn(jitter: LambdaJitter, begin: float) -> None:
    """Each by its own seed, also where the noise only begins later, and whatever was drawn before."""
    parts = (LambdaPart(start=0.5, jitter=(begin, 1.0)),)
    task = Noisy(LossConfig(lambda_parts=parts, lambda_jitter=jitter))
    score_share(LossConfig(lambda_jitter=jitter), Progress(0, 1, seed=0), torch.zeros(1))
    assert chosen(task) == "the task's loss draws random numbers"
    members = members_of(task)
    losses = [torch.cat(list(each.losses(batch_of(), Progress(5, 10)))) for each in ways(members)]
    assert torch.equal(*losses)


def ways(members: Sequence[Member]) -> list[Execution]:
    in_turn = SequentialMembers(members, torch.device("cpu"))
    return [BatchedMembers(members, in_turn), in_turn]


def test_any_layout_of_a_batch_can_be_made() -> None:
    batch = execution_choice.create_sample_batch(replace(SCHEMA, num_buckets=5))
    assert batch.bucket_offsets == (0, 9, 19, 28, 38, 48)
    assert batch.sparse["features"].values is None
    assert batch.sparse["items"].values is not None

"""Members that are computed together: losses, gradients and buffers are those of members one after the other."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from pool.ensemble.batched_members import BatchedMembers
from pool.ensemble.execution import Execution
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.task.task import Progress
from tests.pool.ensemble.models import TASKS, Gradients, InTurn, batch_of, members_of, toy, watched, written
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

HALF = Progress(5, 10)
CLOSE = 1e-6  # relative to the norm of a member's whole gradient


def computed(
    execution: Execution, members: list[Member], number: int = 0, *, sinks: bool = True, frozen: Collection[int] = ()
) -> tuple[list[float], list[Gradients]]:
    """Losses and gradients of a batch."""
    losses: list[float] = []
    with ExitStack() as hooks:
        gradients = [hooks.enter_context(watched(member.model, sinks=sinks)) for member in members]
        for found in execution.losses(batch_of(number), HALF, frozen):
            found.sum().backward()  # type: ignore[no-untyped-call]
            losses += found.tolist()
    return losses, gradients


def both(task_name: str, number: int = 0, *, sinks: bool = True) -> tuple[list[Member], list[Member]]:
    """Members after a batch together and one after the other; losses and gradients are compared."""
    together = members_of(TASKS[task_name]())
    in_turn = copy.deepcopy(together)
    batched = BatchedMembers(together, Refused())
    losses, gradients = computed(batched, together, number, sinks=sinks)
    expected_losses, expected = computed(InTurn(in_turn), in_turn, number, sinks=sinks)
    assert losses == pytest.approx(expected_losses, rel=CLOSE)
    assert len(set(losses)) == len(losses)
    for own, wanted in zip(gradients, expected, strict=True):
        whole = norm(torch.stack([norm(tensor) for tensors in wanted.values() for tensor in tensors]))
        for name, tensors in wanted.items():
            assert len(own[name]) == len(tensors) <= 1, name
            for tensor, other in zip(own[name], tensors, strict=True):
                assert torch.equal(tensor.isnan(), other.isnan()), name  # rows that are not touched
                assert norm(tensor - other) <= CLOSE * whole, name
    return together, in_turn


def norm(tensor: Tensor) -> Tensor:
    found: Tensor = tensor.nan_to_num().norm()  # type: ignore[no-untyped-call]
    return found


class Refused:
    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        raise AssertionError((batch.number, progress, frozen))


@pytest.mark.parametrize("task", TASKS)
def test_losses_and_gradients_are_those_of_each_member_alone(task: str) -> None:
    both(task)


@pytest.mark.parametrize("task", ["clicks mlp", "toy"])
def test_without_a_sink_a_table_has_its_members_gradient(task: str) -> None:
    both(task, sinks=False)


def test_a_parameter_that_a_batch_does_not_use_gets_no_gradient() -> None:
    together = members_of(toy(unused_every=2))
    _, gradients = computed(BatchedMembers(together, Refused()), together, number=1)
    assert [found["extra.weight"] for found in gradients] == [[], [], []]


def test_each_member_has_its_own_statistics() -> None:
    together, in_turn = both("toy with BatchNorm")
    for member, other in zip(together, in_turn, strict=True):
        for name, buffer in member.model.named_buffers():
            torch.testing.assert_close(buffer, other.model.get_buffer(name), rtol=CLOSE, atol=CLOSE)
        assert int(member.model.get_buffer("norm.num_batches_tracked")) == 1
    means = [member.model.get_buffer("norm.running_mean") for member in together]
    assert not torch.equal(means[0], means[1])


def test_a_weight_that_is_replaced_between_batches_is_the_one_that_counts() -> None:
    """As the worker does with each version."""
    members = members_of(toy())
    batched = BatchedMembers(members, Refused())
    computed(batched, members)
    for member in members:
        for parameter in member.model.parameters():
            parameter.data = parameter.data * 2
    losses, _ = computed(batched, members)
    assert losses == pytest.approx(computed(InTurn(members), members)[0], rel=CLOSE)


def test_a_batch_has_the_same_bits_each_time() -> None:
    members = members_of(TASKS["clicks mlp"]())
    batched = BatchedMembers(members, Refused())
    (first, one), (second, other) = (computed(batched, members) for _ in range(2))
    assert first == second
    for gradients, again in zip(one, other, strict=True):
        for name, (tensor, *_) in again.items():
            assert torch.equal(gradients[name][-1].nan_to_num(), tensor.nan_to_num()), name


def test_members_with_other_settings_are_computed_with_their_own_task() -> None:
    members = []
    for scale, member in zip((1.0, 10.0, 1.0, 10.0), members_of(toy(), 4), strict=True):
        task = ToyTask(ModelConfig(num_features=60, hidden=8), LossConfig(scale=scale))
        members.append(Member(task, member.model, member.seed, LossConfig(scale=scale)))
    losses, _ = computed(BatchedMembers(members, Refused()), members)
    assert losses == pytest.approx(computed(InTurn(members), members)[0], rel=CLOSE)


def test_a_frozen_member_gets_no_gradient_and_changes_nothing_for_the_others() -> None:
    members = members_of(TASKS["toy with BatchNorm"]())
    frozen = copy.deepcopy(members)
    _, expected = computed(BatchedMembers(members, Refused()), members)
    _, gradients = computed(BatchedMembers(frozen, Refused()), frozen, frozen=[1])
    assert not any(gradients[1].values())
    before = members_of(TASKS["toy with BatchNorm"]())[1].model
    for name, buffer in frozen[1].model.named_buffers():
        assert torch.equal(buffer, before.get_buffer(name)), name
    for m in (0, 2):
        for name, (tensor,) in expected[m].items():
            assert torch.equal(gradients[m][name][0].nan_to_num(), tensor.nan_to_num()), name
        for name, buffer in frozen[m].model.named_buffers():
            assert torch.equal(buffer, members[m].model.get_buffer(name)), name
    assert [len(next(BatchedMembers(frozen, Refused()).losses(batch_of(), HALF, [0, 1, 2])))] == [3]


class Counting(nn.Module):
    """Counts what is above 0, in a buffer: bound anew, or in place."""

    count: Tensor

    def __init__(self, *, anew: bool) -> None:
        super().__init__()
        self.anew = anew
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        above = (x.detach() > 0).float().sum(0)
        if self.anew:
            self.count = self.count + above
        else:
            self.count += above
        out: Tensor = x * (1 + self.count)
        return out


def test_a_buffer_that_is_bound_anew_is_as_if_it_was_changed_in_place() -> None:
    found = []
    for anew in (True, False):
        members = members_of(written(partial(Counting, anew=anew)))
        batched = BatchedMembers(members, Refused())
        losses = [computed(batched, members)[0] for _ in range(2)]
        found.append((losses, [member.model.get_buffer("rest.0.count").tolist() for member in members]))
    assert found[0] == found[1]
    assert found[0][1][0] != found[0][1][1]


class Looking(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out * 2 if float(out.detach().sum()) < math.inf else out


def test_a_batch_that_fails_is_computed_one_member_after_the_other() -> None:
    members = members_of(written(lambda: Looking(8, 8)))
    losses, gradients = computed(BatchedMembers(members, InTurn(members)), members)
    alone = copy.deepcopy(members)
    expected_losses, expected = computed(InTurn(alone), alone)
    assert losses == expected_losses
    for own, wanted in zip(gradients, expected, strict=True):
        assert all(torch.equal(own[name][0].nan_to_num(), wanted[name][0].nan_to_num()) for name in wanted)


def test_what_the_task_raises_is_raised() -> None:
    members = members_of(TASKS["clicks mlp"]())
    batch = batch_of()
    batch.dense["label"].fill_(7.0)
    with pytest.raises(ValueError, match="label 7 in the data"):
        next(BatchedMembers(members, InTurn(members)).losses(batch, HALF))


@pytest.mark.parametrize("error", [MemoryError("no more"), RuntimeError("can't allocate memory: you tried")])
def test_running_out_of_memory_does_not_choose_the_bits(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    members = members_of(toy())
    batched = BatchedMembers(members, InTurn(members))

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(SparseLinear, "forward", fail)
    with pytest.raises(type(error)):
        next(batched.losses(batch_of(), HALF))

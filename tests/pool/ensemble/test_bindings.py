"""What a batch may do to what a model holds, and what is named instead of being lost."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool.ensemble.bindings import Bindings
from pool.exchange.tensors import replace_tensors, trained_parameters, untrained_tensors
from pool.task.attributes import find_attributes


class Net(nn.Module):
    twice: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.mid, self.other, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen.requires_grad_(requires_grad=False)
        self.other.weight = self.mid.weight
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("nothing", None)
        self.register_buffer("twice", torch.zeros(2))
        self.register_buffer("again", self.twice)
        self.steps = 0
        self.mean = torch.zeros(3)
        self.cache: Tensor | None = None


class Holder:
    """A task, as far as it holds things."""

    def __init__(self) -> None:
        self.rate = 0.5
        self.history = torch.zeros(3)
        self.norm = nn.BatchNorm1d(3)
        self.scale = torch.zeros((), requires_grad=True)
        self.counts = {"batches": 0, "means": [torch.zeros(3)]}
        self.array, self.losses, self.last = np.zeros(3), list[float](), deque[float](maxlen=10)
        self.nan, self.gauss = float("nan"), random.gauss
        self.generators = {
            "numpy": np.random.default_rng(1),
            "numpy's old": np.random.RandomState(1),
            "python": random.Random(1),
            "torch": torch.Generator().manual_seed(1),
        }
        self.cache = dict[int, Tensor]()
        self.words = dict.fromkeys(range(2000), 0)
        calls = 0

        def count() -> None:
            nonlocal calls
            calls += 1

        self.count = count


Change = Callable[[Any, Any], object]


def rebind(model: Any, name: str, tensor: Tensor) -> None:
    setattr(model, name, tensor)


BROUGHT_BACK: dict[str, Change] = {
    "a buffer bound anew": lambda model, _: rebind(model, "seen", model.seen + 1),
    "a buffer's data": lambda model, _: setattr(model.seen, "data", model.seen + 1),
    "a buffer in place": lambda model, _: model.seen.add_(1),
    "a buffer with a gradient": lambda model, _: rebind(model, "seen", model.seen + model.mid.bias.sum() * 0 + 1),
    "a buffer in place, with a gradient": lambda model, _: model.seen.add_(model.mid.bias.sum() * 0 + 1),
    "a parameter frozen for a batch": lambda model, _: (
        model.seen.add_(1),
        model.mid.requires_grad_(requires_grad=False),
    ),
    "what is global, and a cache": lambda model, task: (
        model.seen.add_(1),
        task.gauss(0, 1),
        task.cache.setdefault(int(model.seen), torch.ones(1)),
    ),
    "what begins as nothing": lambda model, _: rebind(model, "cache", model.seen.add_(1)),
}


@pytest.mark.parametrize("change", BROUGHT_BACK)
def test_a_batch_leaves_its_buffers_in_the_tensors_that_the_run_knows(change: str) -> None:
    model = Net()
    known, memory = (
        [each for _, each in untrained_tensors(model)],
        [each.detach() for _, each in untrained_tensors(model)],
    )
    task = Holder()
    bindings = Bindings(model, find_attributes(cast(Any, task), model))
    for count in (1, 2):
        BROUGHT_BACK[change](model, task)
        assert bindings.restore_tensors(memory) == ""
        assert [each for _, each in untrained_tensors(model)] == known
        assert [each.data_ptr() for each in known] == [each.data_ptr() for each in memory]
        assert model.get_buffer("seen").item() == count
        assert model.get_buffer("seen").is_leaf
        assert all(parameter.requires_grad for parameter in model.mid.parameters())


NAMED: dict[str, tuple[Change, str]] = {
    "shape": (
        lambda model, _: rebind(model, "seen", torch.zeros(2)),
        "changes the buffer seen from float32 scalar to float32 2: its shape and dtype are those that",
    ),
    "shape in place": (
        lambda model, _: model.seen.resize_(2),
        "changes the buffer seen from float32 scalar to float32 2",
    ),
    "dtype": (
        lambda model, _: rebind(model, "seen", model.seen.double()),
        "changes the buffer seen from float32 scalar to float64 scalar",
    ),
    "buffer that becomes nothing": (lambda model, _: setattr(model, "seen", None), "in the place of the buffer seen"),
    "nothing that becomes a buffer": (lambda model, _: rebind(model, "nothing", torch.zeros(1)), "the buffer nothing"),
    "buffer of two names": (lambda model, _: rebind(model, "twice", model.twice + 1), "binds the buffer twice anew"),
    "late buffer": (lambda model, _: model.register_buffer("late", torch.zeros(1)), "adds the buffer late: "),
    "late buffer for no checkpoint": (
        lambda model, _: model.mid.register_buffer("late", torch.zeros(1), persistent=False),
        "adds the buffer mid.late: build_model must make all that the model has",
    ),
    "buffer that goes": (lambda model, _: delattr(model, "seen"), "removes the buffer seen"),
    "late module": (lambda model, _: setattr(model, "late", nn.Linear(3, 3)), "adds the module late"),
    "other module": (lambda model, _: setattr(model, "mid", nn.Linear(3, 3)), "in the place of the module mid"),
    "other parameter": (
        lambda model, _: setattr(model.mid, "bias", nn.Parameter(model.mid.bias * 2)),
        "binds the parameter mid.bias anew: only after_step may change weights",
    ),
    "unfrozen": (
        lambda model, _: model.frozen.requires_grad_(),
        "lets the parameter frozen.weight be trained, which build_model has frozen: let build_model train it",
    ),
    "hook": (
        lambda model, _: model.mid.bias.register_hook(lambda gradient: gradient),
        "changes the hooks of the parameter mid.bias: set them in build_model, once",
    ),
    "later hook": (
        lambda model, _: model.mid.bias.register_post_accumulate_grad_hook(lambda _: None),
        "changes the hooks of the parameter mid.bias",
    ),
    "number of the model": (
        lambda model, _: setattr(model, "steps", model.steps + 1),
        "changes the number model.steps",
    ),
    "number of the task": (lambda _, task: setattr(task, "rate", task.rate / 2), "changes the number task.rate"),
    "number that becomes a tensor": (lambda _, task: setattr(task, "rate", torch.ones(1)), "the number task.rate"),
    "tensor of the model": (
        lambda model, _: setattr(model, "mean", model.mean + 1),
        "changes model.mean, a tensor that no other process gets to know: register it as a buffer",
    ),
    "tensor of the task in place": (lambda _, task: task.history.add_(1), "changes task.history, a tensor"),
    "buffers of a module of the task": (
        lambda _, task: task.norm(torch.ones(2, 3)),
        "changes task.norm.num_batches_tracked, a tensor",
    ),
    "number in a container": (
        lambda _, task: task.counts.update(batches=1),
        "changes the number task.counts.batches",
    ),
    "tensor in a container": (
        lambda _, task: task.counts["means"].__setitem__(0, torch.ones(3)),
        "changes task.counts.means[0], a tensor",
    ),
    "tensor taken out of a container": (
        lambda _, task: task.counts["means"].clear(),
        "changes the length of the list task.counts.means",
    ),
    "array in place": (lambda _, task: task.array.__iadd__(1), "changes the array task.array, which"),
    "array anew": (lambda _, task: setattr(task, "array", task.array + 1), "changes the array task.array, which"),
    "list that grows": (lambda _, task: task.losses.append(0.5), "changes the length of the list task.losses"),
    "deque that grows": (lambda _, task: task.last.append(0.5), "changes the length of the deque task.last"),
    "generator of numpy": (
        lambda _, task: task.generators["numpy"].random(),
        "draws from task.generators.numpy, of which no other process gets to know: draw from torch's, numpy's or",
    ),
    "old generator of numpy": (lambda _, task: task.generators["numpy's old"].rand(), "draws from task.generators.n"),
    "generator of Python": (lambda _, task: task.generators["python"].random(), "draws from task.generators.python"),
    "generator of torch": (
        lambda _, task: torch.rand((), generator=task.generators["torch"]),
        "draws from task.generators.torch",
    ),
    "number of a function": (lambda _, task: task.count(), "changes the number task.count.calls"),
    "what nothing trains": (
        lambda _, task: (task.scale * 2).backward(),
        "gives task.scale a gradient, and nothing trains it: make it a parameter of the model",
    ),
}


@pytest.mark.parametrize("change", NAMED)
def test_what_would_stay_in_one_process_is_named(change: str) -> None:
    model, task = Net(), Holder()
    memory = [each.detach() for _, each in untrained_tensors(model)]
    bindings = Bindings(model, find_attributes(cast(Any, task), model))
    change_it, complaint = NAMED[change]
    change_it(model, task)
    assert complaint in bindings.restore_tensors(memory)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.mid.bias.fill_(2),
        lambda model: setattr(model.mid.bias, "data", torch.full((3,), 2.0)),
        lambda model: setattr(model.mid, "bias", nn.Parameter(torch.full((3,), 2.0))),
        lambda model: model.mid.load_state_dict({"weight": model.mid.weight, "bias": torch.full((3,), 2.0)}),
    ],
)
def test_where_weights_may_change_they_do_however_that_is_written(change: Callable[[Any], object]) -> None:
    model = Net()
    parameters, places = (
        [each for _, each in trained_parameters(model)],
        [each.detach() for _, each in trained_parameters(model)],
    )
    bindings = Bindings(model, weights_change=True)
    bias = model.mid.bias
    before = bias._version
    with torch.no_grad():
        change(model)
    assert bindings.restore_tensors([each.detach() for _, each in untrained_tensors(model)], places) == ""
    assert [each for _, each in trained_parameters(model)] == parameters
    assert [each.data_ptr() for each in parameters] == [each.data_ptr() for each in places]
    assert bias.tolist() == [2, 2, 2]
    assert bias._version > before, "or the rows of a table that have changed would not be known"


def test_where_weights_may_change_freezing_one_is_named() -> None:
    """It would be so in the coordinator alone."""
    model = Net()
    bindings = Bindings(model, weights_change=True)
    model.mid.requires_grad_(requires_grad=False)
    assert "freezes the parameter mid.weight, which no worker gets to know: freeze it in build_model" in (
        bindings.find_problem()
    )


class Marked(nn.Parameter):
    pass


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_tensors_with_other_memory_keep_what_hangs_on_them(device: str) -> None:
    calls: list[str] = []
    with torch.device(device):
        layer = nn.Linear(2, 2)
        layer.weight = Marked(torch.zeros(2, 2))
        model = nn.Sequential(layer, nn.LSTM(2, 2), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
    model[2].bias = layer.bias
    hook = layer.weight.register_hook(lambda gradient: calls.append("hook") or gradient * 0)  # type: ignore[func-returns-value]
    layer.weight.register_post_accumulate_grad_hook(lambda _: calls.append("later"))
    layer.weight.own = "mine"  # type: ignore[attr-defined]
    tensors = dict(model.named_parameters())
    replace_tensors(model, [torch.full(tensor.shape, 0.5) for tensor in tensors.values()])
    assert dict(model.named_parameters()) == tensors
    assert model[2].bias is layer.bias
    assert (type(layer.weight), layer.weight.own) == (Marked, "mine")  # type: ignore[attr-defined]
    model[2](model[1](layer(torch.ones(1, 2)))[0]).sum().backward()
    assert calls == ["hook", "later"]
    assert layer.weight.grad is not None
    assert not layer.weight.grad.any()
    assert all(tensor.grad is not None for tensor in tensors.values())
    hook.remove()
    layer(torch.ones(1, 2)).sum().backward()
    assert calls == ["hook", "later", "later"]
    assert layer.weight.grad.any()

"""Builds the members (networks) of a run, and one module that contains all their models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from torch import nn

from pool.ensemble.member import Member
from pool.errors import ConfigError
from pool.exchange.layout import member_prefix
from pool.exchange.plan import Plan
from pool.exchange.tensors import tensor_specs
from pool.nn.generators import GeneratorStates
from pool.task.attributes import find_attributes
from pool.task.factory import build_model, make_task
from pool.task.net import Net
from pool.task.start import without_start_from


def build_members(nets: Sequence[Net], plans: Sequence[Plan], *, on_meta: bool = False) -> Iterator[Member]:
    """Builds each member with newly initialized weights, the same as if it were trained alone.

    `plans`: of each member. `on_meta`: builds models without values, on torch's meta device. Raises ConfigError,
    also for a model that does not match its plan, and whatever the tasks' code raises.
    """
    for index, (net, plan) in enumerate(zip(nets, plans, strict=True)):
        task = make_task(net.task, net.model, net.loss, net.seed)
        model = build_model(task, net.seed, on_meta=on_meta)
        _check_tensors(model, plan, member_prefix(index, len(nets)))
        yield Member(
            task,
            model,
            net.seed,
            (without_start_from(net.model), net.loss),
            GeneratorStates.capture(),
            find_attributes(task, model),
            on_meta=on_meta,
        )


def _check_tensors(model: nn.Module, plan: Plan, name_prefix: str) -> None:
    """Raises ConfigError if the tensors of a model are not those of its plan. `name_prefix`: of the plan's names.

    Tensors are matched by their order in the plan, so that other layers would be trained otherwise.
    """
    for built_tensors, planned_tensors in zip(tensor_specs(model), (plan.parameters, plan.buffers), strict=True):
        for built, planned in itertools.zip_longest(built_tensors, planned_tensors):
            actual = "none"
            if built is not None:
                actual = describe_tensor(name_prefix + built.name, built.dtype, built.shape)
            expected = "none"
            if planned is not None:
                expected = describe_tensor(planned.name, planned.dtype, planned.shape)
            if actual != expected:
                raise ConfigError(
                    f"task: build_model does not give the same model in each process: {actual} here, {expected} in the "
                    "planner; it may depend on settings, and on numbers of torch's, Python's and numpy's global "
                    "generators, alone"
                )


def describe_tensor(name: str, dtype: str, shape: Sequence[int]) -> str:
    """Describes name, dtype and shape of a tensor for the user."""
    size = " x ".join(map(str, shape)) or "scalar"
    return f"{name}, {dtype} {size}"


class Ensemble(nn.Module):
    """Contains the models of several members, whose tensors have names such as `member.0.weight`."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.member = nn.ModuleList(models)


def join_models(models: Sequence[nn.Module]) -> nn.Module:
    """Returns a module that contains all models, or the model itself if there is one only."""
    if len(models) == 1:
        return models[0]
    return Ensemble(models)

"""Makes the members of a run, and one module of all their models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from torch import nn

from pool.ensemble.member import Member
from pool.errors import ConfigError
from pool.exchange.layout import prefix
from pool.exchange.plan import Plan
from pool.exchange.tensors import specs
from pool.nn.generators import GeneratorStates
from pool.task.attributes import attributes
from pool.task.factory import build_model, make_task
from pool.task.net import Net
from pool.task.start import of_a_resumed_run


def make_members(nets: Sequence[Net], plans: Sequence[Plan], *, on_meta: bool = False) -> Iterator[Member]:
    """Each model is freshly initialised from seeded generators, as it would be if its member were alone. `plans`: of
    each; `on_meta`: models have no numbers. Raises ConfigError, also for a model that is not the plan's, and whatever
    the tasks' own code raises."""
    for m, (net, plan) in enumerate(zip(nets, plans, strict=True)):
        task = make_task(net.task, net.model, net.loss, net.seed)
        model = build_model(task, net.seed, on_meta=on_meta)
        _compare(model, plan, prefix(m, len(nets)))
        yield Member(
            task,
            model,
            net.seed,
            (of_a_resumed_run(net.model), net.loss),
            GeneratorStates.now(),
            attributes(task, model),
            on_meta=on_meta,
        )


def _compare(model: nn.Module, plan: Plan, begin: str) -> None:
    """Raises ConfigError for a model of other tensors: they are matched by their place in the plan, and the wrong
    layers would be trained. `begin`: of their names."""
    for own, planned in zip(specs(model), (plan.parameters, plan.buffers), strict=True):
        for here, there in itertools.zip_longest(own, planned):
            actual = "none" if here is None else described(begin + here.name, here.dtype, here.shape)
            expected = "none" if there is None else described(there.name, there.dtype, there.shape)
            if actual != expected:
                raise ConfigError(
                    f"task: build_model does not give the same model in each process: {actual} here, {expected} in the "
                    "planner; it may depend on settings, and on numbers of torch's, Python's and numpy's global "
                    "generators, alone"
                )


def described(name: str, dtype: str, shape: Sequence[int]) -> str:
    """A tensor, for people."""
    return f"{name}, {dtype} {' x '.join(map(str, shape)) or 'scalar'}"


class Ensemble(nn.Module):
    """The models of several members, so that their tensors have one order and the names `member.0.weight`."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.member = nn.ModuleList(models)


def joined_model(models: Sequence[nn.Module]) -> nn.Module:
    """Returns one module of all models; of one model it is that."""
    return models[0] if len(models) == 1 else Ensemble(models)

"""Makes the members of a run, and one module of all their models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from pool.config.tree import Config
from pool.members.member import Member
from pool.tasks.making import make_task
from pool.tasks.start import of_a_resumed_run


def make_members(configs: Sequence[Config]) -> Iterator[Member]:
    """On torch's default device. Each model is freshly initialised from torch's generator, as it would be if its
    member were alone. Raises ConfigError, and whatever the tasks' own code raises."""
    for config in configs:
        task = make_task(config.task, config.model, config.loss)
        torch.manual_seed(config.model_seed)
        model, settings = task.build_model(), (of_a_resumed_run(config.model), config.loss)
        yield Member(task, model, config.model_seed, settings, torch.get_rng_state())


class Ensemble(nn.Module):
    """The models of several members, so that their tensors have one order and the names `member.0.weight`."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.member = nn.ModuleList(models)


def joined_model(models: Sequence[nn.Module]) -> nn.Module:
    """Of one model it is that."""
    return models[0] if len(models) == 1 else Ensemble(models)

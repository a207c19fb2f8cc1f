"""Reads the settings from which a process makes the task, model and loss of one network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loader.section import Section
from pool.task.registry import load_task_module
from pool.task.start import model_class


@dataclass(frozen=True)
class Net:
    """The settings of one network: the name of its task, its sections `model` and `loss`, and its seed."""

    task: str
    model: Section
    loss: Section
    seed: int  # seed of the first weights and of dropout


def read_net(tree: Mapping[str, Any]) -> Net:
    """Returns the settings of one network from a process's start document, given as a mapping. The sections are
    validated again."""
    module = load_task_module(tree["task"])
    model, loss = (json.dumps(tree[section]) for section in ("model", "loss"))
    return Net(
        tree["task"],
        model_class(module).model_validate_json(model),
        module.LossConfig.model_validate_json(loss),
        tree["seed"],
    )

"""The settings that one network's task, model and loss are made with: what a process needs that computes with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loader.section import Section
from pool.task.registry import task_module
from pool.task.start import model_class


@dataclass(frozen=True)
class Net:
    task: str
    model: Section
    loss: Section
    seed: int  # of the first weights and of dropout


def read_net(tree: Mapping[str, Any]) -> Net:
    """Reads what a document holds of one."""
    module = task_module(tree["task"])
    model, loss = (json.dumps(tree[section]) for section in ("model", "loss"))
    return Net(
        tree["task"],
        model_class(module).model_validate_json(model),
        module.LossConfig.model_validate_json(loss),
        tree["seed"],
    )

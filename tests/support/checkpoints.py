"""Checkpoints of freshly made models, as a run writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, MemberState, OptimizerNumbers
from pool.checkpoint.validations import LOWEST_LOSS, NONE, Goal, Validation
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.exchange.layout import member_prefix
from pool.task.factory import build_model, make_task


def save(
    run: Path,
    tree: Mapping[str, Any],
    *,
    step: int = 1,
    validations: Sequence[Validation] = (),
    goal: Goal = LOWEST_LOSS,
    change: Callable[[dict[str, torch.Tensor]], object] = lambda _: None,
) -> Path:
    """Writes a checkpoint of one network or of several, as the config says.

    `validations`: of each network, the newest; `change`: of the tensors.
    """
    run.mkdir(exist_ok=True)
    config = parse_config(tree, "test")
    members = config.members
    weights = {
        member_prefix(m, len(members)) + name: tensor
        for m, member in enumerate(members)
        for name, tensor in weights_of(member).items()
    }
    change(weights)
    return store.save_checkpoint(
        run / FOLDER,
        store.Checkpoint(
            step=step,
            cursor=Cursor(1),
            config=config.model_dump(mode="json"),
            fingerprint={},
            data=[],
            weights=weights,
            optimizer_tensors={},
            optimizer=OptimizerNumbers({}, [], []),
            goal=goal,
            validations=NONE.with_results(validations, goal) if validations else NONE,
            members=(MemberState(),) * len(members),
        ),
    )


def weights_of(member: Config) -> dict[str, torch.Tensor]:
    """Returns the weights that the member's own run would begin with."""
    task = make_task(member.task, member.model, member.loss, member.model_seed)
    weights: dict[str, torch.Tensor] = build_model(task, member.model_seed).state_dict()
    return weights

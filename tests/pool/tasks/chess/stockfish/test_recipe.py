"""configs/stockfish-2022.toml: the recipe of the format's description, and its optimizer's exact numbers."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import torch

from pool.config.load import load_config
from pool.config.tree import Config
from pool.tasks.chess.stockfish import LossConfig, ModelConfig
from tests.support.paths import DATA, ROOT

CONFIG = ROOT / "configs" / "stockfish-2022.toml"
Rows = list[tuple[list[float], list[float]]]


@pytest.fixture
def recipe() -> Config:
    return load_config(CONFIG)


@pytest.fixture
def rows() -> Rows:
    """Per step: gradients in, weights out."""
    table = [[float(cell) for cell in line.split("\t")] for line in (DATA / "ranger.tsv").read_text().splitlines()[1:]]
    return [(row[1:5], row[5:9]) for row in table]


def optimizer_of(recipe: Config, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    module, _, name = recipe.optimizer.name.rpartition(".")
    optimizer: torch.optim.Optimizer = getattr(importlib.import_module(module), name)(
        parameters, **recipe.optimizer.args
    )
    return optimizer


def run(optimizer: torch.optim.Optimizer, weights: list[torch.nn.Parameter], rows: Rows) -> list[torch.Tensor]:
    """Weights after each step; several parameters share the columns."""
    history = []
    for gradients, _ in rows:
        flat = torch.tensor(gradients, dtype=weights[0].dtype)
        for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
            weight.grad = part.clone()
        optimizer.step()
        history.append(torch.cat([weight.detach().clone() for weight in weights]))
    return history


def start(dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=dtype))


def test_model_and_loss_of_the_recipe_are_the_defaults(recipe: Config) -> None:
    assert recipe.loss == LossConfig()
    assert isinstance(recipe.model, ModelConfig)
    assert recipe.model == ModelConfig(factorized=True)
    assert recipe.data.settings.features == "HalfKAv2_hm^"


def test_an_epoch_is_100_million_positions(recipe: Config) -> None:
    every = recipe.run_schedule.every
    assert every == recipe.train.checkpoint_every == -(-100_000_000 // recipe.data.batch_size)
    assert recipe.train.steps == 400 * every


def test_the_optimizer_makes_the_reference_steps(recipe: Config, rows: Rows) -> None:
    weight = start()
    for found, (_, expected) in zip(run(optimizer_of(recipe, [weight]), [weight], rows), rows, strict=True):
        assert found.tolist() == pytest.approx(expected, rel=3e-7, abs=1e-9)


def test_the_optimizer_makes_the_reference_steps_in_double_precision(recipe: Config, rows: Rows) -> None:
    weight = start(torch.float64)
    for found, (_, expected) in zip(run(optimizer_of(recipe, [weight]), [weight], rows), rows, strict=True):
        assert found.tolist() == pytest.approx(expected, rel=0, abs=3e-7)


def test_an_instance_for_each_part_makes_the_same_bits(recipe: Config, rows: Rows) -> None:
    whole = start()
    together = run(optimizer_of(recipe, [whole]), [whole], rows)
    parts = [torch.nn.Parameter(part.clone()) for part in start().detach().split([1, 3])]
    optimizers = [optimizer_of(recipe, [part]) for part in parts]
    for step, (gradients, _) in enumerate(rows):
        for part, optimizer, columns in zip(parts, optimizers, (slice(0, 1), slice(1, 4)), strict=True):
            part.grad = torch.tensor(gradients[columns])
            optimizer.step()
        assert torch.equal(torch.cat([part.detach() for part in parts]), together[step])


def test_its_state_is_tensors_and_json_and_resumes_bit_for_bit(recipe: Config, rows: Rows) -> None:
    whole = start()
    expected = run(optimizer_of(recipe, [whole]), [whole], rows)
    first = start()
    optimizer = optimizer_of(recipe, [first])
    run(optimizer, [first], rows[:17])  # between two steps of Lookahead
    saved = optimizer.state_dict()
    tensors = {key: value for key, value in saved["state"][0].items() if isinstance(value, torch.Tensor)}
    plain: dict[str, Any] = {key: value for key, value in saved["state"][0].items() if key not in tensors}
    groups = json.loads(json.dumps(saved["param_groups"]))
    again = torch.nn.Parameter(first.detach().clone())
    resumed = optimizer_of(recipe, [again])
    state = {**json.loads(json.dumps(plain)), **{key: value.clone() for key, value in tensors.items()}}
    resumed.load_state_dict({"state": {0: state}, "param_groups": groups})
    assert torch.equal(run(resumed, [again], rows[17:])[-1], expected[-1])


def test_the_learning_rate_falls_once_an_epoch(recipe: Config) -> None:
    optimizer = optimizer_of(recipe, [start()])
    assert recipe.schedule.name is not None
    module, _, name = recipe.schedule.name.rpartition(".")
    scheduler = getattr(importlib.import_module(module), name)(optimizer, **recipe.schedule.args)
    rates = []
    for _ in range(3):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([8.75e-4, 8.75e-4 * 0.992, 8.75e-4 * 0.992**2])

"""The loss equals the trainer's of 2022, and its schedule moves from the score to the game's result."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pool.tasks.chess.loss import mean_loss, probability, score_weight
from pool.tasks.chess.loss_config import LossConfig


def test_probabilities_and_losses_are_those_of_the_reference(shared_data: Path) -> None:
    rows = [line.split("\t") for line in (shared_data / "loss.tsv").read_text().splitlines()[1:]]
    assert len(rows) == 405
    config = LossConfig()
    for row in rows:
        net, score, outcome, weight, qf, pf, _, loss = (float(cell) for cell in row)
        output = torch.tensor([net / 600], dtype=torch.float64)
        wanted = torch.tensor([int(score)], dtype=torch.int16)
        result = torch.tensor([int(2 * outcome - 1)], dtype=torch.int8)
        assert probability(output * 600, 270, 340).item() == pytest.approx(qf, abs=1e-11)
        assert probability(wanted.double(), 270, 380).item() == pytest.approx(pf, abs=1e-11)
        found = mean_loss(output, wanted, result, config, weight)
        assert found.item() == pytest.approx(loss, rel=1e-9, abs=1e-13)
        single = mean_loss(output.float(), wanted, result, config, weight)
        assert single.item() == pytest.approx(loss, rel=2e-3, abs=1e-9)


def test_the_loss_is_the_mean_over_the_samples() -> None:
    output, score, result = torch.tensor([0.5, -1.0]), torch.tensor([100, -900]), torch.tensor([1, -1])
    both = mean_loss(output, score, result, LossConfig(), 0.7)
    parts = [mean_loss(output[i : i + 1], score[i : i + 1], result[i : i + 1], LossConfig(), 0.7) for i in range(2)]
    assert both.item() == pytest.approx((parts[0].item() + parts[1].item()) / 2)


def test_without_offsets_the_probability_is_one_logistic_curve() -> None:
    score = torch.linspace(-1000, 1000, 41, dtype=torch.float64)
    assert torch.allclose(probability(score, 0.0, 361.0), torch.sigmoid(score / 361))


def test_lambda_moves_linearly_from_start_to_end() -> None:
    config = LossConfig(lambda_start=1.0, lambda_end=0.75)
    assert [score_weight(config, fraction) for fraction in (0.0, 0.5, 1.0)] == [1.0, 0.875, 0.75]


def test_a_perfect_prediction_has_a_finite_gradient() -> None:
    config = LossConfig(out_scaling=340.0)
    output = torch.tensor([0.5], requires_grad=True)
    mean_loss(output, torch.tensor([300]), torch.tensor([0]), config, 1.0).backward()
    assert output.grad is not None
    assert torch.isfinite(output.grad).all()

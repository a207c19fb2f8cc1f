"""The loss equals the trainer's of 2022; its weights and the schedule of lambda are what the settings say."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch

from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.task.task import Progress
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import mean_loss, replace_mate_scores, win_probability
from pool.tasks.chess.training.score_share import lambda_at
from tests.support.paths import DATA

RECIPE = json.loads((DATA / "recipe/settings.json").read_text())  # by nnue-pytorch's names


def recipe_rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / f"recipe/{name}.tsv").read_text().splitlines(), delimiter="\t"))


def test_probabilities_and_losses_are_those_of_the_reference() -> None:
    rows = [line.split("\t") for line in (DATA / "loss.tsv").read_text().splitlines()[1:]]
    assert len(rows) == 405
    config = LossConfig()
    for row in rows:
        net, score, outcome, weight, qf, pf, _, loss = (float(cell) for cell in row)
        output = torch.tensor([net / 600], dtype=torch.float64)
        wanted = torch.tensor([int(score)], dtype=torch.int16)
        result = torch.tensor([int(2 * outcome - 1)], dtype=torch.int8)
        assert win_probability(output * 600, 270, 340).item() == pytest.approx(qf, abs=1e-11)
        assert win_probability(wanted.double(), 270, 380).item() == pytest.approx(pf, abs=1e-11)
        found = mean_loss(output, wanted, result, config, weight)
        assert found.item() == pytest.approx(loss, rel=1e-9, abs=1e-13)
        single = mean_loss(output.float(), wanted, result, config, weight)
        assert single.item() == pytest.approx(loss, rel=2e-3, abs=1e-9)


def test_the_loss_is_the_mean_over_the_samples() -> None:
    output, score, result = torch.tensor([0.5, -1.0]), torch.tensor([100, -900]), torch.tensor([1, -1])
    both = mean_loss(output, score, result, LossConfig(), 0.7)
    parts = [mean_loss(output[i : i + 1], score[i : i + 1], result[i : i + 1], LossConfig(), 0.7) for i in range(2)]
    assert both.item() == pytest.approx((parts[0].item() + parts[1].item()) / 2)


@pytest.mark.parametrize("settings", [{}, {"weight_boost": 2.0}, {"mate_base": 3000.0}, {"asymmetry": 0.5}])
def test_what_is_missing_has_no_share_of_the_target(settings: dict[str, Any]) -> None:
    """Whatever lambda is: 1 for a sample without a result, 0 for one without a score."""
    config, output = LossConfig(**settings), torch.linspace(-1, 1, 5, dtype=torch.float64)
    score, result = torch.tensor([-300, 0, 31800, 40, 1], dtype=torch.int16), torch.tensor([1, 0, -1, 0, 1])
    for share in (0.0, 0.3, 1.0, torch.linspace(0, 1, 5, dtype=torch.float64)):
        by_score = mean_loss(
            output, replace_mate_scores(score, config), torch.full((5,), -128, dtype=torch.int8), config, share
        )
        assert by_score.item() == pytest.approx(
            mean_loss(output, replace_mate_scores(score, config), result, config, 1.0).item()
        )
    for share in (0.0, 0.3, 1.0):
        marked = replace_mate_scores(torch.full((5,), 32002, dtype=torch.int16), config)
        by_result = mean_loss(output, marked, result, config, share)
        for other in range(5):  # no score of a sample counts, but for its weight
            lone = LossConfig(**{**settings, "weight_boost": 0.0})
            one = slice(other, other + 1)
            alone = mean_loss(output[one], marked[one], result[one], config, share)
            assert alone.item() == pytest.approx(mean_loss(output[one], score[one], result[one], lone, 0.0).item())
        assert by_result.isfinite()


def test_without_offsets_the_probability_is_one_logistic_curve() -> None:
    score = torch.linspace(-1000, 1000, 41, dtype=torch.float64)
    assert torch.allclose(win_probability(score, 0.0, 361.0), torch.sigmoid(score / 361))


def lambdas(loss: dict[str, Any], steps: Sequence[int], total: int) -> list[float]:
    config = parse_config({"task": "stockfish", "loss": loss}, "test").loss
    assert isinstance(config, LossConfig)
    return [lambda_at(config, Progress(step, total)).base for step in steps]


def test_lambda_moves_linearly_from_start_to_end() -> None:
    assert lambdas({"lambda_start": 1.0, "lambda_end": 0.75}, (0, 50, 100), 100) == [1.0, 0.875, 0.75]


def test_lambda_can_be_made_of_parts() -> None:
    """Constant, a warm-up, and linear up to the end of the run, which a resumed one may move."""
    warm_up = {"start": 1.0, "end": 0.5, "steps": 10}
    parts = [warm_up, {"start": 0.5, "steps": 30}, {"start": 0.75, "end": 0.25}]
    steps = (0, 5, 9, 10, 39, 40, 70, 100)
    found = lambdas({"lambda_parts": parts}, steps, 100)
    assert found == pytest.approx([1.0, 0.75, 0.55, 0.5, 0.5, 0.75, 0.5, 0.25])
    assert lambdas({"lambda_parts": parts}, (40, 70, 160), 160) == pytest.approx([0.75, 0.625, 0.25])
    assert lambdas({"lambda_parts": [{"start": 0.3}]}, (0, 100), 100) == [0.3, 0.3]
    assert lambdas({"lambda_parts": parts}, (10, 20), 20) == [0.5, 0.5]  # a run that ends within a part
    whole = {"lambda_parts": [{"start": 1.0, "end": 0.75}]}
    assert lambdas(whole, range(101), 100) == lambdas({"lambda_end": 0.75}, range(101), 100)


def in_parts(case: dict[str, Any]) -> list[dict[str, Any]]:
    """nnue-pytorch's settings of lambda as parts: a line, or a cosine to a middle value and one back."""
    start, end = case["start_lambda"], case["end_lambda"]
    steps = case.get("lambda_schedule_steps", case["max_steps"])
    if not (delta := case.get("lambda_cycle_delta", 0.0)):
        return [{"start": start, "end": end, "steps": steps}, {"start": end}]
    assert start == end
    there = round(case["lambda_cycle_warmup_pct"] * steps)
    middle = round(start + delta, 12)
    ways = [
        {"start": start, "end": middle, "curve": "cosine", "steps": there},
        {"start": middle, "end": end, "curve": "cosine", "steps": steps - there},
    ]
    taken = [way for way in ways if way["steps"]]
    return [*taken, {"start": taken[-1]["end"]}]


@pytest.mark.parametrize("name", RECIPE["lambda"])
def test_lambda_is_that_of_the_recipes_of_2026(name: str) -> None:
    rows = [row for row in recipe_rows("lambda") if row["case"] == name]
    steps = [int(row["step"]) for row in rows]
    found = lambdas({"lambda_parts": in_parts(RECIPE["lambda"][name])}, steps, max(*steps, 6_000_000))
    assert len(rows) >= 4
    assert found == pytest.approx([float(row["lambda"]) for row in rows], rel=1e-15, abs=1e-15)


def test_scores_of_mates_are_remapped() -> None:
    """The values of recipe-2026.md c; scores of tablebases, up to 31753, are no mates."""
    score = torch.tensor([32000, 31999, 31950, -31999, 31755, 31754, -31753, 5, 0, 32001], dtype=torch.int16)
    found = replace_mate_scores(score, LossConfig(mate_base=4000.0))
    expected = [8000, 7400, 4001.18, -7400, 4000, 31754, -31753, 5, 0, 8000]
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    assert replace_mate_scores(score, LossConfig()) is score


@pytest.mark.parametrize("name", [name for name in RECIPE["loss"] if name != "all"])
def test_losses_and_slopes_are_those_of_the_recipes_of_2026(name: str) -> None:
    """As nnue-pytorch computes them in float64, of each position alone."""
    names = {"in_offset": "in_offset", "out_offset": "out_offset", "in_scaling": "in_scaling"}
    names |= {"out_scaling": "out_scaling", "pow_exp": "exponent", "qp_asymmetry": "asymmetry"}
    names |= {"w1": "weight_boost", "w2": "weight_power"}
    names |= {f"tb_remap_{each}": f"mate_{each}" for each in ("base", "scale", "decay")}
    settings = {**RECIPE["loss"]["all"], **RECIPE["loss"][name]}
    config = LossConfig.model_validate({names[key]: float(value) for key, value in settings.items()})
    for row in recipe_rows("loss"):
        output = torch.tensor([float(row["prediction"]) / 600], dtype=torch.float64, requires_grad=True)
        score = replace_mate_scores(torch.tensor([int(row["score"])]), config)
        result = torch.tensor([2 * float(row["result"]) - 1], dtype=torch.float64)
        loss = mean_loss(output, score, result, config, float(row["lambda"]))
        loss.backward()
        near: dict[str, Any] = {"rel": 1e-13, "abs": 1e-17}
        assert output.grad is not None
        assert loss.item() == pytest.approx(float(row[f"{name}/loss"]), **near)
        assert output.grad.item() == pytest.approx(600 * float(row[f"{name}/slope"]), **near)


@pytest.mark.parametrize(
    ("task", "loss", "said"),
    [
        ("stockfish", {"lambda_parts": [{"start": 1.0, "steps": 5}]}, r"lambda_parts\.0\.steps: the last part goes on"),
        (
            "stockfish",
            {"lambda_parts": [{"start": 1.0}, {"start": 1.0}]},
            r"loss\.lambda_parts\.0\.steps: is missing: how many training steps this part lasts",
        ),
        ("stockfish", {"lambda_parts": [{"start": 1.5}]}, r"loss\.lambda_parts\.0\.start: .*less than or equal to 1"),
        ("stockfish", {"lambda_parts": [{"end": 0.5}]}, r"loss\.lambda_parts\.0\.start: field required"),
        (
            "stockfish",
            {"lambda_parts": [{"start": 1, "stop": 0}]},
            r"unknown key; allowed here: start, end, curve, jitter, steps",
        ),
        (
            "perspective",
            {"lambda_parts": [{"start": 1.0}], "lambda_end": 0.5},
            r"loss\.lambda_end: does nothing beside lambda_parts: leave it out, or set it to 0\.25",
        ),
        ("stockfish", {"asymmetry": -1.5}, r"loss\.asymmetry: .*greater than or equal to -1"),
    ],
)
def test_settings_that_make_no_schedule_are_refused(task: str, loss: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config({"task": task, "loss": loss}, "test")


def test_a_member_has_its_own_schedule_of_lambda() -> None:
    members = [{"loss": {"lambda_parts": [{"start": 0.5}]}}, {"loss": {"lambda_end": 0.5}}, {}]
    config = parse_config({"task": "stockfish", "ensemble": {"member": members}}, "test")
    losses = [member.loss for member in config.members]
    assert [lambda_at(cast(LossConfig, loss), Progress(100, 100)).base for loss in losses] == [0.5, 0.5, 1.0]
    again = parse_config(json.loads(config.model_dump_json()), "config.json")
    assert [m.model_dump() for m in again.members] == [m.model_dump() for m in config.members]


def test_positions_weigh_what_the_recipes_make_them_weigh() -> None:
    config = LossConfig(weight_boost=3.0, weight_power=0.5, asymmetry=0.25, exponent=2.0)
    output = torch.tensor([0.5, -0.2, 0.0, 1.0], dtype=torch.float64)
    score, result = torch.tensor([100, -300, 0, 2000]), torch.tensor([1, -1, 0, 1])
    total, weights = 0.0, 0.0
    for x, s, r in zip(output.tolist(), score.tolist(), result.tolist(), strict=True):
        q, p = (
            0.5 * (1 + 1 / (1 + math.exp((270 - v) / k)) - 1 / (1 + math.exp((270 + v) / k)))
            for v, k in ((600 * x, 340), (s, 380))
        )
        target = 0.75 * p + 0.25 * (r + 1) / 2
        weight = 1 + 7 * math.sqrt((p - 0.5) ** 2 * p * (1 - p))
        total += weight * (target - q) ** 2 * (1.25 if q > target else 1)
        weights += weight
    assert mean_loss(output, score, result, config, 0.75).item() == pytest.approx(total / weights, rel=1e-12)
    assert total / weights != pytest.approx(mean_loss(output, score, result, LossConfig(exponent=2.0), 0.75).item())


def test_weights_that_are_all_alike_change_nothing() -> None:
    output = torch.linspace(-1, 1, 1000)
    score, result = (600 * output.flip(0)).round(), output.sign()
    plain = mean_loss(output, score, result, LossConfig(), 0.7)
    weighted = mean_loss(output, score, result, LossConfig(asymmetry=1e-9), 0.7)
    assert weighted.item() == pytest.approx(plain.item(), rel=1e-6)
    assert plain.item() == mean_loss(output, score, result, LossConfig(weight_power=1.0), 0.7).item()


def test_a_perfect_prediction_has_a_finite_gradient() -> None:
    config = LossConfig(out_scaling=340.0)
    output = torch.tensor([0.5], requires_grad=True)
    mean_loss(output, torch.tensor([300]), torch.tensor([0]), config, 1.0).backward()
    assert output.grad is not None
    assert torch.isfinite(output.grad).all()

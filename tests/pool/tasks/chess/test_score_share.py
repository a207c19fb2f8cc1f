"""Lambda's noise: the peer's formula, a function of seed, step and batch, and what it does to a loss."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pool.nn.generators import seed_for_purpose
from pool.task.task import Progress
from pool.tasks.chess.training import score_share as module
from pool.tasks.chess.training.config import LambdaJitter, LambdaPart, LossConfig
from pool.tasks.chess.training.loss import mean_loss
from pool.tasks.chess.training.score_share import autoregressive, lambda_noise, score_share

SAMPLES = torch.zeros(1000)
CPU = torch.device("cpu")


def noisy(jitter: dict[str, float], **loss: Any) -> LossConfig:
    return LossConfig(lambda_jitter=LambdaJitter(**jitter), **{"lambda_start": 0.7, "lambda_end": 0.7, **loss})


def drawn(config: LossConfig, step: int, batch: int = 0, seed: int = 1) -> Any:
    seed_for_purpose(seed, batch, CPU)
    return score_share(config, Progress(step, 10_000, seed), SAMPLES)


def test_the_walk_is_a_function_of_seed_and_step() -> None:
    steps = [0, 1, 1023, 1024, 5000]
    wanted = [lambda_noise(7, step, 0.9) for step in steps]
    module._cached_noise.cache_clear()
    assert [lambda_noise(7, step, 0.9) for step in reversed(steps)] == wanted[::-1]
    assert len({lambda_noise(seed, 5, 0.9) for seed in range(10)}) == 10


def test_the_walk_keeps_its_deviation() -> None:
    """Of 0.99 over 200,000 steps: that it is 1, and what is left of a number 100 steps later."""
    values = torch.tensor([lambda_noise(3, step, 0.99) for step in range(200_000)], dtype=torch.float64)
    assert values.mean().abs() < 0.1
    assert 0.9 < values.std() < 1.1
    later = (values[:-100] * values[100:]).mean() / values.square().mean()
    assert abs(later - 0.99**100) < 0.1


def test_noise_of_a_step_is_the_same_for_all_batches_and_noise_of_samples_is_not() -> None:
    of_step, of_samples = noisy({"step": 0.01, "step_keep": 0.9}), noisy({"sample": 0.01})
    assert drawn(of_step, 5, batch=1) == drawn(of_step, 5, batch=2) != 0.7
    first, second, again = (drawn(of_samples, 5, batch=batch) for batch in (1, 2, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert abs(first.mean() - 0.7) < 0.002
    assert 0.009 < first.std() < 0.011


def test_noise_fades_with_the_factor_of_a_part_and_stays_within_limits() -> None:
    parts = (
        LambdaPart(start=0.7, end=0.9, curve="cosine", jitter=(1.0, 0.0), steps=100),
        LambdaPart(start=0.9, jitter=(0.0, 0.0)),
    )
    config = LossConfig(lambda_jitter=LambdaJitter(sample=0.01), lambda_parts=parts)
    deviations = [float(drawn(config, step).std()) for step in (0, 50)]
    assert deviations[1] / deviations[0] == pytest.approx(0.5, rel=1e-3)
    assert drawn(config, 100) == 0.9
    wide = drawn(noisy({"sample": 1.0}), 0)
    assert (wide.min(), wide.max()) == (0, 1)


def test_validations_have_no_noise() -> None:
    config = noisy({"step": 0.1, "sample": 0.1})
    before = torch.get_rng_state()
    assert score_share(config, Progress(5, 10), SAMPLES) == pytest.approx(0.7)
    assert torch.equal(torch.get_rng_state(), before)


def test_each_sample_may_have_a_lambda_of_its_own() -> None:
    output, score, result = torch.randn(7).double(), torch.arange(7) * 100, torch.tensor([1, 0, -1, 1, 0, -1, 1])
    shares = torch.linspace(0, 1, 7).double()
    each = [
        mean_loss(output[i : i + 1], score[i : i + 1], result[i : i + 1], LossConfig(), float(shares[i]))
        for i in range(7)
    ]
    assert float(mean_loss(output, score, result, LossConfig(), shares)) == pytest.approx(float(sum(each)) / 7)


def of_peer(settings: dict[str, Any], total: int) -> tuple[LossConfig, int]:
    """The same schedule in our keys, and the steps of the run."""
    jitter = LambdaJitter(
        step=settings.get("jitter_lambda_batch", 0.0),
        step_keep=settings.get("jitter_decay_lambda_batch", 0.0),
        sample=settings.get("jitter_lambda_sample", 0.0),
    )
    start, end = settings["start_lambda"], settings["end_lambda"]
    if not (delta := settings.get("lambda_cycle_delta", 0.0)):
        steps = settings.get("lambda_schedule_steps", total)
        return LossConfig(lambda_start=start, lambda_end=end, lambda_jitter=jitter), steps
    assert start == end
    up = round(settings["lambda_cycle_warmup_pct"] * settings["lambda_schedule_steps"])
    down = settings["lambda_schedule_steps"] - up
    factors = ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0)) if settings.get("lambda_cycle_jitter") else ((1.0, 1.0),) * 3
    parts = [(start, start + delta, up), (start + delta, start, down), (start, None, None)]
    made = [
        LambdaPart(start=begin, end=stop, curve="cosine", steps=steps, jitter=factor)
        for (begin, stop, steps), factor in zip(parts, factors, strict=True)
        if steps != 0
    ]
    return LossConfig(lambda_parts=tuple(made), lambda_jitter=jitter), 2 * settings["lambda_schedule_steps"]


def test_lambda_is_the_peers(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the numbers that it drew. Its validations, which have noise, are left out."""
    folder = shared_data / "vectors/recipe"
    cases = json.loads((folder / "lambda.json").read_text())["cases"]
    with (folder / "lambda.tsv").open() as file:
        lines = [line for line in csv.DictReader(file, delimiter="\t") if cases[line["case"]]["training"]]
    compared = dict.fromkeys((line["case"] for line in lines), 0)
    for line in lines:
        if line["case"] == "warmup_1":  # stays at its height: parts say that otherwise
            continue
        config, total = of_peer(cases[line["case"]]["settings"], cases[line["case"]]["max_steps"])
        jitter, step = config.lambda_jitter, int(line["step"])
        wanted = torch.tensor([float(number) for number in line["lambda"].split(",")], dtype=torch.float64)
        monkeypatch.setattr(
            module, "lambda_noise", lambda *_, now=line, by=jitter: float(now["jitter_after"]) / by.step
        )
        samples = line["normals_of_samples"] or ",".join("0" for _ in wanted)
        normals = torch.tensor([float(number) for number in samples.split(",")], dtype=torch.float64)
        monkeypatch.setattr(torch, "randn_like", lambda _, now=normals: now.clone())
        found = score_share(config, Progress(min(step, total), total, 0), wanted)
        torch.testing.assert_close(torch.as_tensor(found).double().expand_as(wanted), wanted, rtol=1.45e-7, atol=0)
        compared[line["case"]] += 1
    assert sum(compared.values()) > 30


def test_the_walk_is_the_peers(shared_data: Path) -> None:
    folder = shared_data / "vectors/recipe"
    cases = json.loads((folder / "lambda.json").read_text())["cases"]
    with (folder / "lambda.tsv").open() as file:
        lines = [line for line in csv.DictReader(file, delimiter="\t") if line["normal_of_batch"]]
    values: dict[str, float] = {}
    for line in lines:
        settings = cases[line["case"]]["settings"]
        keep, before = settings.get("jitter_decay_lambda_batch", 0.0), values.get(line["case"], 0.0)
        (values[line["case"]],) = autoregressive(before, [float(line["normal_of_batch"])], keep)
        found = settings["jitter_lambda_batch"] * values[line["case"]]
        assert found == pytest.approx(float(line["jitter_after"]), rel=5.1e-7)
    assert len(lines) > 5

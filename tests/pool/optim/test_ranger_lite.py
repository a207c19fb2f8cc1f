"""RangerLite: its formula in double precision, the peer's own numbers, and the norm that it is given."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pool.optim import AdamW, RangerLite
from pool.optim.plain_state import check_group
from tests.support.paths import DATA

START = {"rows": torch.randn(40, 21, generator=torch.Generator().manual_seed(1)), "bias": torch.linspace(-1, 1, 33)}
PEERS = json.loads((DATA / "recipe/settings.json").read_text())["rangerlite"]  # nnue-pytorch's own numbers


def reference(
    start: Mapping[str, Tensor], gradients: Iterator[Mapping[str, Tensor]], settings: Mapping[str, Any]
) -> Iterator[dict[str, Tensor]]:
    """The weights after each step, float64, as the page of formulas says."""
    rate, k, decay = settings["lr"], settings["momentum"], settings["weight_decay"]
    b1, b2 = settings["betas"]
    weights = {name: each.double().clone() for name, each in start.items()}
    slow = {name: each.clone() for name, each in weights.items()}
    means = [{name: torch.zeros_like(each) for name, each in weights.items()} for _ in range(2)]
    squares = {name: torch.zeros_like(each) for name, each in weights.items()}
    for t, gradient in enumerate(gradients, 1):
        for name, g in gradient.items():
            squares[name] = b2 * squares[name] + (1 - b2) * g.double() ** 2
        total = sum(float(each.sum()) for each in squares.values()) / (1 - b2**t)
        norm = max(1e-7, math.sqrt(total / sum(each.numel() for each in weights.values())))
        mean, other = means[(t + 1) % 2], means[t % 2]
        for name, g in gradient.items():
            weights[name] *= 1 - decay * rate / norm
            mean[name] = b1**2 * mean[name] + (1 - b1**2) * g.double()
            way = ((1 + k) * mean[name] - k * other[name]) / math.sqrt((1 + k) ** 2 + k**2)
            size = rate / (1 - b1 ** (2 * math.ceil(t / 2)))
            weights[name] -= size * way / (squares[name].sqrt() / math.sqrt(1 - b2**t) + settings["eps"])
            if t % settings["lookahead_steps"] == 0:
                share = settings["lookahead_alpha"]
                slow[name] = share * weights[name] + (1 - share) * slow[name]
                weights[name] = slow[name].clone()
        yield {name: each.clone() for name, each in weights.items()}


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.01},
        {"momentum": 0.5, "lookahead_steps": 3, "lookahead_alpha": 0.8, "betas": (0.8, 0.95), "eps": 1e-5},
        {"momentum": 0.0, "lookahead_alpha": 1.0},
    ],
    ids=["defaults", "decay", "others", "neither"],
)
def test_the_weights_are_those_of_the_formula(settings: dict[str, Any]) -> None:
    own = {name: nn.Parameter(each.clone()) for name, each in START.items()}
    optimizer = RangerLite(own.values(), lr=0.01, **settings)
    group = optimizer.param_groups[0]
    generator = torch.Generator().manual_seed(2)
    gradients = [
        {name: torch.randn(each.shape, generator=generator) for name, each in START.items()} for _ in range(17)
    ]
    for gradient, wanted in zip(gradients, reference(START, iter(gradients), group), strict=True):
        for name, parameter in own.items():
            parameter.grad = gradient[name]
        optimizer.step()
        for name, parameter in own.items():
            torch.testing.assert_close(parameter.detach().double(), wanted[name], rtol=3e-6, atol=3e-6)
    assert {float(optimizer.state[each]["step"]) for each in own.values()} == {17}


def in_our_keys(variant: Mapping[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """Arguments, and the weight decay of each tensor, of a variant by the peer's names."""
    arguments = {"lr": variant["lr"], "eps": variant.get("eps", 1e-7)}
    if variant.get("lookahead_steps", 5) is None:
        arguments["lookahead_alpha"] = 1.0  # the weights go all of the way
    if not variant.get("pnm", True):
        arguments["positive_negative"] = False
    if not variant.get("stable_weight_decay", True):
        arguments["stable_weight_decay"] = False
    return arguments, variant.get("weight_decay", [0.0, 0.0, 0.0])


def recipe_rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / f"recipe/{name}.tsv").read_text().splitlines(), delimiter="\t"))


@pytest.mark.parametrize("variant", PEERS["variants"])
def test_the_weights_are_the_peers(variant: str) -> None:
    """In groups, one for each tensor, of which the second one's weights may decay. The peer computed the variants
    called 32 in float32, the others in float64."""
    error = 3.3e-7 if variant.endswith("32") else 8e-7
    kind = AdamW if variant == "adamw" else RangerLite
    lines = [line for line in recipe_rows("rangerlite") if line["variant"] == variant]
    shapes = PEERS["shapes"]

    def numbers(name: str, text: str) -> Tensor:
        return torch.tensor([float(number) for number in text.split(",")]).view(shapes[name])

    own = {name: nn.Parameter(torch.tensor(PEERS["start"][name]).view(shape)) for name, shape in shapes.items()}
    arguments, decays = in_our_keys(PEERS["variants"][variant])
    groups = [{"params": [each], "weight_decay": d} for each, d in zip(own.values(), decays, strict=True)]
    optimizer = kind(groups, **arguments)  # type: ignore[arg-type]
    compared = 0
    for line in recipe_rows("rangerlite_gradients"):
        for name, parameter in own.items():
            parameter.grad = numbers(name, line[name])
        optimizer.step()
        for wanted in lines:
            name = wanted["tensor"]
            if wanted["step"] == line["step"] and wanted["what"] == "weights":
                torch.testing.assert_close(own[name].detach(), numbers(name, wanted["values"]), rtol=error, atol=1e-8)
                compared += 1
    keys = {"grad_ma": "odd_mean", "neg_grad_ma": "even_mean", "variance_ma": "exp_avg_sq", "lookahead_params": "slow"}
    for wanted in lines:
        if (key := wanted["what"].removeprefix("state/")) != "weights":
            name = wanted["tensor"]
            found = optimizer.state[own[name]][keys.get(key, key)]
            torch.testing.assert_close(found, numbers(name, wanted["values"]), rtol=1.3e-6, atol=1e-9)
            compared += 1
    assert compared == len(lines) >= 27


def test_a_state_from_before_some_settings_has_what_was_done_then() -> None:
    optimizer = RangerLite([nn.Parameter(torch.zeros(3))], positive_negative=False, stable_weight_decay=False)
    state = RangerLite([nn.Parameter(torch.zeros(3))]).state_dict()
    for name in ("positive_negative", "stable_weight_decay"):
        del state["param_groups"][0][name]
    optimizer.load_state_dict(state)  # on a resume; and in a plan before that:
    check_group(optimizer.state_dict()["param_groups"][0], {**RangerLite.added, **state["param_groups"][0]})
    assert optimizer.param_groups[0]["positive_negative"]
    assert optimizer.param_groups[0]["stable_weight_decay"]


def test_the_norm_is_that_of_all_parameters() -> None:
    """A parameter that does not change decays by what the others' gradients are."""
    still, moving = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))
    optimizer = RangerLite([still, moving], lr=0.01, weight_decay=0.1)
    still.grad, moving.grad = torch.zeros(8), torch.full((8,), 2.0)
    optimizer.step()
    torch.testing.assert_close(still.detach(), torch.full((8,), 1 - 0.1 * 0.01 / math.sqrt(2)))


def test_it_goes_on_from_its_state_to_the_bit() -> None:
    """In the middle of lookahead; torch brings tensors of a loaded state to the type of their parameter."""

    def stepped(steps: int, state: Mapping[str, Any] | None = None, weights: Tensor | None = None) -> Any:
        parameter = nn.Parameter(START["rows"].clone() if weights is None else weights.clone())
        optimizer = RangerLite([parameter], lr=0.01, weight_decay=0.01)
        if state is not None:
            optimizer.load_state_dict(dict(state))
        first = 0 if state is None else 7
        for step in range(first, first + steps):
            parameter.grad = torch.sin(START["rows"] + step)
            optimizer.step()
        return parameter.detach(), optimizer.state_dict()

    whole, _ = stepped(12)
    half, state = stepped(7)
    assert torch.equal(stepped(5, state, half)[0], whole)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lookahead_steps": 0}, "lookahead_steps must be a whole number from 1 on, not 0"),
        ({"lookahead_steps": 2.5}, "lookahead_steps must be a whole number"),
        ({"lookahead_alpha": 0}, "lookahead_alpha must be above 0 and at most 1"),
        ({"momentum": -1}, "momentum must not be negative"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RangerLite([nn.Parameter(torch.zeros(3))], **settings)

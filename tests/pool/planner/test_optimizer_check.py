"""An optimizer that promises more than it keeps is refused before the run, with the name of what it keeps to itself."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.exchange.plan import TensorSpec, build_plan
from pool.planner.optimizer_check import couples_all_parameters
from pool.planner.planner import plan_member
from pool.planner.small_plan import shrink_plan
from pool.planner.trial import snapshot_nbytes

HERE = "tests.pool.planner.test_optimizer_check"


class Plain(torch.optim.Optimizer):
    """Gradient descent, which keeps nothing."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    def rate(self, _: nn.Parameter) -> float | Tensor:
        return 1.0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(group["lr"] * self.rate(parameter) * parameter.grad)


class Counts(Plain):
    """Counts its steps outside its state, and looks at the count every thousandth step only."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 0.1) -> None:
        super().__init__(params, lr)
        self.count = 0

    def rate(self, _: nn.Parameter) -> float:
        self.count += 1
        return 0.5 if self.count % 1000 == 0 else 1.0


class HasState(Counts):
    """The same with the count in its state_dict."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.count = state_dict["count"]


class Remembers(Plain):
    """Keeps tensors in an object of its own."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 0.1) -> None:
        super().__init__(params, lr)
        self.memory = Memory()

    def rate(self, parameter: nn.Parameter) -> Any:
        assert parameter.grad is not None
        self.memory.means[parameter] = self.memory.means.get(parameter, 0.0) + parameter.grad.mean()
        return self.memory.means[parameter]


class Memory:
    def __init__(self) -> None:
        self.means: dict[nn.Parameter, Any] = {}


class Draws(Plain):
    def rate(self, _: nn.Parameter) -> float:
        return random.random()


class Grows(Plain):
    """Keeps every gradient that it has had."""

    def rate(self, parameter: nn.Parameter) -> float:
        assert parameter.grad is not None
        state, row = self.state[parameter], parameter.grad.reshape(1, -1)
        state["all"] = torch.cat([state["all"], row]) if "all" in state else row.clone()
        return 1.0


class Together(Plain):
    """Divides by the norm of all its gradients."""

    def rate(self, parameter: nn.Parameter) -> Any:
        norms = [torch.linalg.vector_norm(each.grad.double()) for each in self.param_groups[0]["params"]]
        return (1.0 / torch.stack(norms).norm()).to(parameter.dtype)


class Casts(Plain):
    """Has a state of more bits than its parameters, which torch's load_state_dict gives their type."""

    def rate(self, parameter: nn.Parameter) -> Any:
        state = self.state[parameter]
        state["rate"] = state.get("rate", torch.ones(parameter.shape, dtype=torch.float64)) * 1.0000001
        return state["rate"]


def config(name: str) -> Any:
    return parse_config({"task": "tests.support.toy", "optimizer": {"name": f"{HERE}.{name}"}}, "test")


def specs(*dtypes: str) -> list[TensorSpec]:
    sizes = {"float32": 4, "float64": 8}
    return [TensorSpec(f"layer{n}", (5, 300), dtype, sizes[dtype]) for n, dtype in enumerate(dtypes)]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Counts", "keeps count outside its state_dict, so that a death or a resume would lose it"),
        ("Remembers", "keeps memory outside its state_dict"),
        ("Draws", "draws random numbers, and would draw others after a death or a resume"),
        ("Grows", "its state grows with the steps (layer1/all after step 12)"),
        ("Casts", "goes on from its saved state with other weights than without a resume"),
    ],
)
def test_what_would_be_other_after_a_resume_is_refused_by_name(name: str, complaint: str) -> None:
    plan = build_plan(specs("float32", "float32"), [], [1])
    before = random.getstate(), torch.get_rng_state()
    with pytest.raises(ConfigError) as error:
        snapshot_nbytes(config(name), [plan])
    assert str(error.value).startswith(f"optimizer.name: {HERE}.{name}: {complaint}")
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("name", ["Plain", "HasState"])
def test_what_keeps_its_promises_is_tried_and_taken(name: str) -> None:
    plan = plan_member(config(name), specs("float32", "float32"), [])
    assert snapshot_nbytes(config(name), [plan]) > 0


def test_parameters_that_are_stepped_together_are_in_one_bucket() -> None:
    two = specs("float32", "float32")
    small = parse_config({**config("Together").model_dump(mode="json"), "pool": {"first_bucket_mb": 1e-6}}, "test")
    small = small.model_copy(update={"pool": small.pool.model_copy(update={"bucket_mb": 1e-6})})
    assert len(plan_member(small, two, []).buckets) == 1
    plain = small.model_copy(update={"optimizer": config("Plain").optimizer})
    assert len(plan_member(plain, two, []).buckets) == 2
    assert couples_all_parameters(small, shrink_plan(build_plan(two, [], [1])))
    assert not couples_all_parameters(plain, shrink_plan(build_plan(two, [], [1])))


def test_parameters_of_two_types_that_are_stepped_together_are_refused() -> None:
    mixed = specs("float32", "float64")
    plan = plan_member(config("Together"), mixed, [])
    assert len(plan.buckets) == 2
    with pytest.raises(
        ConfigError, match=r"Together: steps all parameters together, which have to be in one bucket of"
    ):
        snapshot_nbytes(config("Together"), [plan])

"""What is no task is refused before a run, by class and method."""

# ruff: noqa: ARG001, ARG005 (functions here stand for a task's methods)

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from pydantic import field_validator

from loader.section import Section
from pool.commands.main import PROGRAM
from pool.config.tree import config_class
from pool.ensemble.member import find_loss_problem
from pool.errors import ConfigError
from pool.task import registry
from pool.task.factory import make_task
from pool.task.registry import TASKS
from tests.support import toy
from tests.support.runs import TOY, run
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask


def task_of(**methods: Any) -> Any:
    """A toy task with other methods; None takes one away."""
    task = type("Mine", (ToyTask,), {name: value for name, value in methods.items() if value is not None})
    gone = [name for name, value in methods.items() if value is None]

    def get(self: object, name: str) -> object:
        if name in gone:
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    task.__getattribute__ = get  # type: ignore[method-assign, assignment]
    return task(ModelConfig(), LossConfig())


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a module `my_task` with these names, as a user's would have them."""

    def make(**names: Any) -> str:
        module = ModuleType("my_task")
        usual = {"ModelConfig": ModelConfig, "LossConfig": LossConfig, "create_task": toy.create_task}
        for name, value in {**usual, **names}.items():
            if value is not None:
                setattr(module, name, value)
        monkeypatch.setitem(sys.modules, "my_task", module)
        return "my_task"

    return make


async def async_loss(self: object, model: object, batch: object, progress: object) -> None:
    pass


def generating_loss(self: object, model: object, batch: object, progress: object) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("methods", "complaint"),
    [
        ({"export": None}, "Mine.export is missing: a task must have export(model, path, description)"),
        ({"check": None}, "Mine.check is missing: a task must have check(schema)"),
        ({"loss": 3}, "Mine.loss must be a function of (model, batch, progress), not 3"),
        ({"loss": async_loss}, "Mine.loss must not be async"),
        ({"loss": generating_loss}, "Mine.loss must not be a generator"),
        (
            {"loss": lambda self, model, batch: None},
            "Mine.loss can't be called with (model, batch, progress): too many positional arguments (",
        ),
        (
            {"after_step": lambda self, model, other: None},
            "Mine.after_step can't be called with (model): missing a required argument: 'other' (",
        ),
        ({"initialize": property(lambda self: 1 / 0)}, "Mine.initialize can't be had: ZeroDivisionError"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_task_that_lacks_something_is_refused_by_class_and_method(
    methods: dict[str, Any], complaint: str, named: Callable[..., str]
) -> None:
    name = named(create_task=lambda model, loss: task_of(**methods))
    with pytest.raises(ConfigError) as error:
        make_task(name, ModelConfig(), LossConfig())
    assert str(error.value).startswith(f"task: my_task: {complaint}")


def test_methods_with_further_arguments_that_need_not_be_given_are_fine(named: Callable[..., str]) -> None:
    task = task_of(loss=lambda self, *arguments, extra=1: None, check=lambda self, schema, strict=True: None)
    assert make_task(named(create_task=lambda model, loss: task), ModelConfig(), LossConfig()) is task


def test_a_class_instead_of_an_object_is_said_to_be_one(named: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match="task: my_task: the class ToyTask is given, not an object of it"):
        make_task(named(create_task=lambda model, loss: ToyTask), ModelConfig(), LossConfig())


class NoDefault(Section):
    hidden: int


class WrongDefault(Section):
    hidden: int = "sixteen"  # type: ignore[assignment]


class Infinite(Section):
    rate: float = float("inf")


class Raising(Section):
    hidden: int = 1

    @field_validator("hidden")
    @classmethod
    def _check(cls, value: int) -> int:
        raise ZeroDivisionError(value)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ({"create_task": None}, "has no create_task"),
        ({"LossConfig": None}, "has no LossConfig"),
        ({"create_task": 5}, "create_task must be a function of (model, loss), not 5"),
        ({"create_task": lambda: None}, "create_task can't be called with (model, loss): too many positional"),
        ({"create_task": async_loss}, "create_task must not be async"),
        ({"ModelConfig": dict}, "ModelConfig must be a class made from loader.Section, not <class 'dict'>"),
        ({"ModelConfig": ModelConfig()}, "ModelConfig must be a class made from loader.Section, not ModelConf"),
        ({"ModelConfig": NoDefault}, "ModelConfig.hidden: has no good default: Field required"),
        ({"LossConfig": WrongDefault}, "LossConfig.hidden: has no good default: Input should be a valid integer"),
        ({"LossConfig": Infinite}, "LossConfig.rate: has no good default: Input should be a finite number"),
        ({"LossConfig": Raising}, "LossConfig: its defaults can't be made: ZeroDivisionError: 1 ("),
    ],
)
def test_a_module_that_is_no_task_is_refused_by_name(
    names: dict[str, Any], complaint: str, named: Callable[..., str]
) -> None:
    with pytest.raises(ConfigError) as error:
        config_class(named(**names))
    assert f"task: module 'my_task' (None): {complaint}" in str(error.value)


@pytest.mark.runs
def test_a_run_of_such_a_task_ends_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "my_task.py").write_text(
        "from tests.support.toy import LossConfig, ModelConfig\n"
        "class Mine:\n    def check(self, schema): pass\n"
        "def create_task(model, loss): return Mine()\n",
        encoding="utf-8",
    )
    ended = run(tmp_path / "run", {**TOY, "task": "my_task"}, cwd=tmp_path)
    assert ended.code == 2
    assert ended.err == "pool: task: my_task: Mine.build_model is missing: a task must have build_model()\n"


@pytest.mark.parametrize(
    ("loss", "complaint"),
    [
        (None, "gave NoneType, which is no tensor"),
        (3, "gave int, which is no tensor"),
        (torch.zeros(4, requires_grad=True), "gave a tensor of shape (4,)"),
        (torch.zeros(0, requires_grad=True), "gave a tensor of shape (0,)"),
        (torch.zeros(()), "gave a number without gradient"),
        (torch.zeros((), dtype=torch.complex64, requires_grad=True), "gave a number that is complex"),
        (torch.zeros((), device="meta", requires_grad=True), "gave a number that is on the device meta"),
        (torch.zeros((), requires_grad=True), ""),
        (torch.zeros((1, 1), requires_grad=True), ""),
    ],
)
def test_a_loss_that_nothing_can_be_trained_on_is_described(loss: object, complaint: str) -> None:
    problem = find_loss_problem(loss, backward=True)
    assert problem.startswith(complaint)
    assert bool(problem) == bool(complaint)


def test_a_validation_needs_no_gradient() -> None:
    assert find_loss_problem(torch.zeros(()), backward=False) == ""


def test_a_bundled_task_brings_its_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hello(name: str) -> None:
        sys.stdout.write(f"hello {name}\n")

    commands = ModuleType("my_commands")
    commands.register = lambda app: app.command(name="hello")(hello)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_commands", commands)
    monkeypatch.setattr(toy, "COMMANDS", "my_commands", raising=False)
    bundled = {**TASKS.bundled, "toy": "tests.support.toy"}
    monkeypatch.setattr(registry, "TASKS", replace(TASKS, bundled=bundled))
    main = replace(PROGRAM, groups=tuple(registry.load_command_groups())).main
    assert main(["hello", "there"]) == 0
    assert capsys.readouterr().out == "hello there\n"
    assert main(["eval"]) == 2
    assert "Missing argument 'NET'" in capsys.readouterr().err

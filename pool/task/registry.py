"""Finds a task by name. Free of torch: a task's module names its config at once and its model lazily."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from loader.plugins.interface import call_problem
from loader.plugins.registry import Registry, load
from loader.section import Section, section_problem
from pool.checkpoint.migrations import TASKS as RENAMED
from pool.errors import ConfigError
from pool.task.single import as_module

if TYPE_CHECKING:
    from loader.command_line.program import CommandGroup
    from pool.task.task import Task

TASKS = Registry(
    "task",
    "task",
    {
        "stockfish": "pool.tasks.chess.stockfish",
        "perspective": "pool.tasks.chess.perspective",
        "clicks": "pool.tasks.clicks",
    },
    "the name of a module, or module:Class",
)


class TaskModule(Protocol):
    """The names that a task's module must offer. Importing it must not import torch; calling `create_task` may.

    Beside these it may have EXPORT_SUFFIX, the ending of an exported file's name, and, if it comes with the program,
    COMMANDS, the name of a module with `register(app)` that adds commands to `pool`, and NETWORKS, the name of a module
    with a chess engine's networks (pool.tasks.chess.network.Family). SCORE_UNIT is the unit of its networks'
    outputs, as sources name those of scores, and SCORE_SCALES has what scores of other units are multiplied by for it.

    And it may have `complete_model(model, data)`, if its model's settings follow in part from those of the data: the
    section `model` as it is given, and the source's own section, make the section of the run. Raises ValueError.
    """

    ModelConfig: type[Section]
    LossConfig: type[Section]

    def create_task(self, model: Any, loss: Any) -> Task: ...


def task_module(name: str) -> TaskModule:
    """The module of a bundled task, the module of that dotted name, or what offers the same: a class of tasks, or a
    task, in a module (`module:Class`). Raises ConfigError."""
    if name in RENAMED:
        raise ConfigError(f'task: {name} is called {RENAMED[name]} now: write task = "{RENAMED[name]}"')
    try:
        module = TASKS.find(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    offered = as_module(module)
    if problem := _problem(offered):
        where = f"module {name!r} ({getattr(module, '__file__', None)})" if isinstance(module, ModuleType) else name
        raise ConfigError(f"task: {where}: {problem}")
    return cast(TaskModule, offered)


def completed_model(module: TaskModule, model: Section, data: Section | None) -> Section:
    """The section `model` with what follows from the source's own section. Raises ValueError."""
    complete = getattr(module, "complete_model", None)
    return model if complete is None else cast(Section, complete(model, data))


def command_groups() -> Iterator[CommandGroup]:
    """The commands of the tasks that come with the program."""
    offered = (getattr(task_module(name), "COMMANDS", None) for name in TASKS.bundled)
    for commands in dict.fromkeys(name for name in offered if name is not None):  # tasks may share theirs
        yield load(commands, ours=True)


def is_bundled(name: str) -> bool:
    """Returns whether the task comes with the program."""
    return name in TASKS.bundled


def _problem(module: Any) -> str:
    """Why it is no TaskModule; empty if it is."""
    for name in ("ModelConfig", "LossConfig", "create_task"):
        if not hasattr(module, name):
            return f"has no {name}"
    for name in ("ModelConfig", "LossConfig"):
        if problem := section_problem(getattr(module, name)):
            return f"{name}{problem}"
    problem = call_problem(module.create_task, ("model", "loss"))
    return f"create_task {problem}" if problem else ""

"""Finds the module of a task by the task's name, and its model section and commands. Free of torch: a task's module
imports its config at once and its model when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from loader.plugins.interface import find_call_problem
from loader.plugins.registry import Registry, import_object
from loader.section import Section, find_section_problem
from pool.checkpoint.migrations import TASKS as RENAMED
from pool.errors import ConfigError
from pool.task.single import wrap_single_task

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
    """Defines the names that a task's module must offer. Importing the module must not import torch. Calling
    `create_task` may.

    A module may also have these names:

    EXPORT_SUFFIX is the ending of an exported file's name. SCORE_UNIT is the unit of the networks' outputs, in the
    words that sources use for units of scores. SCORE_SCALES maps each other unit to the factor that converts scores to
    SCORE_UNIT.

    `complete_model(model, data)` is for a model whose settings follow in part from those of the data. It returns the
    section `model` of the run, given that section as the user wrote it and the source's own section. Raises ValueError.

    A task that comes with the program may have COMMANDS, the name of a module whose `register(app)` adds commands to
    `pool`, and NETWORKS, the name of a module that reads a chess engine's networks (pool.tasks.chess.network.Family).
    """

    ModelConfig: type[Section]
    LossConfig: type[Section]

    def create_task(self, model: Any, loss: Any) -> Task: ...


def load_task_module(name: str) -> TaskModule:
    """Returns the module of a task. `name` is that of a bundled task, a dotted module name, or `module:Class` for a
    class of tasks (or a task) in a module. Raises ConfigError."""
    if name in RENAMED:
        raise ConfigError(f'task: {name} is called {RENAMED[name]} now: write task = "{RENAMED[name]}"')
    try:
        found = TASKS.find(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    task_module = wrap_single_task(found)
    problem = _find_problem(task_module)
    if problem:
        if isinstance(found, ModuleType):
            raise ConfigError(f"task: module {name!r} ({getattr(found, '__file__', None)}): {problem}")
        raise ConfigError(f"task: {name}: {problem}")
    return cast(TaskModule, task_module)


def complete_model_section(module: TaskModule, model: Section, data: Section | None) -> Section:
    """Returns the section `model`, completed by the settings that follow from `data`, the source's own section. Raises
    ValueError."""
    complete = getattr(module, "complete_model", None)
    return model if complete is None else cast(Section, complete(model, data))


def load_command_groups() -> Iterator[CommandGroup]:
    """Yields the command groups of the bundled tasks, each group once."""
    modules: set[str] = set()  # tasks may share a module
    for task in TASKS.bundled:
        module = getattr(load_task_module(task), "COMMANDS", None)
        if module is not None and module not in modules:
            modules.add(module)
            yield import_object(module, ours=True)


def is_bundled(name: str) -> bool:
    """Returns whether the task comes with the program."""
    return name in TASKS.bundled


def _find_problem(module: Any) -> str:
    """Returns the reason why `module` is no TaskModule, or an empty text if it is one."""
    for name in ("ModelConfig", "LossConfig", "create_task"):
        if not hasattr(module, name):
            return f"has no {name}"
    for name in ("ModelConfig", "LossConfig"):
        problem = find_section_problem(getattr(module, name))
        if problem:
            return f"{name}{problem}"
    problem = find_call_problem(module.create_task, ("model", "loss"))
    return f"create_task {problem}" if problem else ""

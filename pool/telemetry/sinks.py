"""Defines sinks, which receive the numbers of a run besides metrics.jsonl, and finds a sink by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from loader.plugins.interface import find_call_problem
from loader.plugins.registry import Registry


class Sink(Protocol):
    """Receives the numbers of a run. The coordinator calls a sink between two steps, and training waits for each
    call."""

    path: Path  # where the sink writes, for messages about failed writes

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        """Receives the numbers of a step, by their names in metrics.jsonl.

        Returns True if everything received so far is written, False if some of it still waits. May raise anything: the
        error is reported, and `add` is called again for the next step.
        """

    def close(self) -> None:
        """Writes what still waits. May raise anything, as `add`."""


@runtime_checkable
class ResumedSink(Protocol):
    """Receives the numbers of a run, as a `Sink`, and can remove those of steps that are done again."""

    def resume(self, step: int) -> object:
        """Removes what an earlier process has written of steps after `step`, since these steps are done again.

        Called once, before the first `add`, when the run begins or resumes with `step` steps done. May raise anything,
        as `add`.
        """


EXTRAS = ("wandb", "trackio")  # sinks that need a package of the same name, which is an extra

# Calling what a name stands for with the run folder gives the Sink.
SINKS = Registry(
    "run.sinks",
    "metrics sink",
    {
        "tensorboard": "pool.coordinator.metrics.tensorboard:TensorBoard",
        "wandb": "pool.coordinator.metrics.tracker:wandb",
        "trackio": "pool.coordinator.metrics.tracker:trackio",
    },
    "module:factory",
)


def find_factory(name: str) -> Callable[[Path], Sink]:
    """Finds the function that makes a sink, by the sink's name in `run.sinks`. Raises ValueError with one line of
    text."""
    if name in EXTRAS and find_spec(name) is None:
        raise ValueError(f"run.sinks: {name} is not installed: pip install 'sparsepool[{name}]'")
    factory = SINKS.find(name)
    if problem := find_call_problem(factory, ("run_dir",)):
        raise ValueError(f"run.sinks: {name} {problem}; allowed: {', '.join(SINKS.bundled)}, or {SINKS.custom_form}")
    return cast(Callable[[Path], Sink], factory)

"""Goes through the stages of a recipe: what is done is left alone, what was begun goes on, the rest is trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loader.exit_codes import EXIT_DONE
from pool.checkpoint.compare_tensors import Forms, first_difference, forms_of
from pool.checkpoint.folder import linked_step
from pool.checkpoint.state import FOLDER, LAST
from pool.config.tree import Config
from pool.errors import ConfigError, RunError
from pool.stages import end
from pool.stages.key import keys
from pool.stages.recipe import Recipe, Stage
from pool.stages.start import begin_with_checkpoint
from pool.supervisor.prepare import preparation
from pool.supervisor.train import train
from pool.task.start import KEY
from pool.telemetry.status import goes_on, read_status, state_of


@dataclass(frozen=True)
class StageRun:
    """A stage and the run folder that it has."""

    stage: Stage
    key: str
    folder: Path

    @property
    def is_trained(self) -> bool:
        """All its steps are done, and it has ended well."""
        return self.state == "finished"

    @property
    def step(self) -> int:
        """Steps that its newest checkpoint has; -1 before the first."""
        with suppress(OSError):
            return linked_step(self.folder / FOLDER, LAST)
        return -1

    @property
    def state(self) -> str:
        """Returns the word that `pool status` has for it, or `new` if it has not begun."""
        if self.step < 0:
            return "new"
        with suppress(OSError):
            if goes_on(self.folder):
                return "running"
        status = read_status(self.folder)
        if status is None:  # a checkpoint was put there, and no run has begun
            return "new"
        return state_of(status, all_steps=self.step >= self.stage.config.train.steps)


def stage_runs(recipe: Recipe) -> list[StageRun]:
    """Returns the stages with their folders, which the content of their data decides. Raises ConfigError."""
    known = keys(recipe.stages)
    own = ((stage, known[stage.name]) for stage in recipe.stages)
    return [StageRun(stage, key, recipe.folder / f"{stage.name}-{key}") for stage, key in own]


def train_stages(
    recipe: Recipe,
    *,
    until: str | None = None,
    rerun: str | None = None,
    allow_different_numerics: bool = False,
    again: Callable[[str], str] | None = None,
) -> int:
    """Trains what is not done, in the order of the file, up to the stage `until`. Returns the exit code of the stage
    that ended it; raises PoolError.

    `rerun`: a stage that is trained anew, as are those that follow from it; what they left keeps another name.
    `again`: as `pool.supervisor.train.train`.
    """
    last = len(recipe.stages) - 1 if until is None else recipe.index(until, "--until")
    if rerun is not None:
        recipe.index(rerun, "--rerun")
    wanted = stage_runs(recipe)
    if rerun is not None:
        _set_aside(wanted, rerun)
    folders = {run.stage.name: run.folder for run in wanted}
    for run in wanted[: last + 1]:
        if not run.is_trained:
            code = _train(run, folders, len(wanted), allow_different_numerics, again)
            if code != EXIT_DONE:
                return code
        end.end_stage(run.stage, run.key, run.folder, _say)
    _say(f"all stages are done: {wanted[last].folder}" if last == len(wanted) - 1 else f"done up to {until}")
    return EXIT_DONE


def check_stages(recipe: Recipe, show: Callable[[str], object]) -> None:
    """Shows a page about each stage, as `pool train --check` does of a run, and checks that each can begin with what
    the one before it will leave. Raises what `preparation.check` raises."""
    made: dict[str, Forms] = {}
    for run in stage_runs(recipe):
        stage = run.stage
        show(f"{'' if not made else chr(10)}Stage {stage.name}: {run.state}\n")
        config = _config(run, stage.start, stage.config.train.start_weights if stage.start else "newest")
        plans = preparation.check(config, show).planned.plans
        made[stage.name] = forms_of(tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers))
        parent = stage.parent
        if parent is not None and (difference := first_difference(made[parent.name], made[stage.name])):
            raise ConfigError(
                f"stage {stage.name}: its model is not that of {parent.name}, which it starts from: {difference}"
            )


def table(recipe: Recipe) -> list[tuple[str, ...]]:
    """Returns headings, then a row a stage: key, state, steps, network, test."""
    return [
        ("stage", "key", "state", "steps", "network", "test"),
        *(
            (
                run.stage.name,
                run.key,
                "done" if run.is_trained else run.state,
                f"{max(run.step, 0):,} of {run.stage.config.train.steps:,}",
                _network(run),
                _test(run),
            )
            for run in stage_runs(recipe)
        ),
    ]


def _network(run: StageRun) -> str:
    if not run.stage.own.export:
        return "-"
    network = end.network_of(run.folder)
    return "to do" if network is None else network.name


def _test(run: StageRun) -> str:
    if not run.stage.own.test:
        return "-"
    return "passed" if end.is_tested(run.folder) else "to do"


def _train(
    run: StageRun,
    folders: Mapping[str, Path],
    count: int,
    allow_different_numerics: bool,
    again: Callable[[str], str] | None,
) -> int:
    stage = run.stage
    start = stage.start if stage.parent is None else str(folders[stage.parent.name])
    config = _config(run, start, stage.config.train.start_weights)
    if stage.own.start_with == "checkpoint":
        assert start is not None
        begin_with_checkpoint(config, Path(start).expanduser())
        config = _config(run, None, "newest")
    _say(f"stage {stage.name}, one of {count}: {run.folder}")
    return train(config, resume=True, allow_different_numerics=allow_different_numerics, again=again)


def _config(run: StageRun, start: str | None, weights: str) -> Config:
    """Returns the config of the stage's run."""
    config = run.stage.config
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"dir": str(run.folder)}),
            "model": config.model.model_copy(update={KEY: start}),
            "train": config.train.model_copy(update={"start_weights": weights}),
        }
    )


def _set_aside(wanted: Sequence[StageRun], rerun: str) -> None:
    """Renames the folders of a stage and of those that follow from it. Raises RunError."""
    again = {rerun}
    for run in wanted:
        parent = run.stage.parent
        if parent is not None and parent.name in again:
            again.add(run.stage.name)
        if run.stage.name not in again or not run.folder.exists():
            continue
        with suppress(OSError):
            if goes_on(run.folder):
                raise ConfigError(f"--rerun {rerun}: {run.folder} is in use by another run")
        number = next(n for n in range(1, 1 << 30) if not _numbered(run.folder, n).exists())
        try:
            run.folder.rename(_numbered(run.folder, number))
        except OSError as error:
            raise RunError(f"{run.folder}: {error.strerror}") from None
        _say(f"stage {run.stage.name}: what was there is {_numbered(run.folder, number)} now")


def _numbered(folder: Path, number: int) -> Path:
    return folder.with_name(f"{folder.name}.{number}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")

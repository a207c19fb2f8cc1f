"""Trains the stages of a recipe in order. Stages that are done are skipped, and those that have begun are continued."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from loader.exit_codes import EXIT_DONE
from pool.checkpoint.compare_tensors import TensorSpecs, first_difference, model_specs
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.state import verify
from pool.config.tree import Config
from pool.errors import ConfigError, ResourceError, RunError, UnavailableError
from pool.stages import end
from pool.stages.recipe import Recipe, Stage
from pool.stages.stage_run import StageRun, adding_damage_context, stage_runs
from pool.stages.start import copy_start_checkpoint
from pool.supervisor.prepare import preparation
from pool.supervisor.prepare.disk_plan import DiskPlan, disk_plan, format_advice
from pool.supervisor.resources.system_memory import format_mib
from pool.supervisor.train import train
from pool.task.start import KEY
from pool.telemetry.status import goes_on


def train_stages(
    recipe: Recipe,
    *,
    until: str | None = None,
    rerun: str | None = None,
    allow_different_numerics: bool = False,
    again: Callable[[str], str] | None = None,
) -> int:
    """Trains the stages that are not done, in the file's order, up to the stage `until`.

    `rerun`: name of a stage that is trained again, with all stages that follow from it, if it is done. Their old
    folders are renamed. If it is not done it is continued, so that the same command can be repeated after a death.
    `again`: as in `pool.supervisor.train.train`.

    Returns the exit code of the last stage that was trained. Raises PoolError.
    """
    count = len(recipe.stages)
    last = count - 1 if until is None else recipe.index(until, "--until")
    if rerun is not None and recipe.index(rerun, "--rerun") > last:
        raise ConfigError(f"--rerun {rerun}: comes behind --until {until}")
    runs = stage_runs(recipe, last)
    rerun_names = set() if rerun is None else _stages_to_rerun(runs, rerun)
    for run in runs:
        if run.stage.name not in rerun_names:  # otherwise its folder will be renamed
            run.check_settings()
        end.check_end(run)
    if rerun is not None:
        _rename_folders(_runs_with_data(recipe), rerun)
    for run in runs:
        if not run.is_trained:
            code = _train_stage(run, count, allow_different_numerics, again)
            if code != EXIT_DONE:
                return code
        end.finish_stage(run, _notify)
    _notify(f"all stages are done: {runs[last].folder}" if last == count - 1 else f"done up to {until}")
    return EXIT_DONE


def check_stages(recipe: Recipe, show: Callable[[str], object]) -> None:
    """Shows a page about each stage, as `pool check` does for a run, and checks that each fits the stage that it
    starts from.

    Raises what `preparation.check` raises.
    """
    specs: dict[str, TensorSpecs] = {}  # of each model's tensors, by stage
    needed: dict[str, DiskPlan] = {}  # disk space, by stage that is to be trained
    for run in stage_runs(recipe):
        stage = run.stage
        run.check_settings()
        end.check_end(run)
        separator = "\n" if specs else ""
        show(f"{separator}Stage {stage.name}: {run.state}\n")
        config = run.config if stage.parent is None else _without_start(run.config)  # its start is still to be trained
        run_plan = preparation.check_run(config, show, begins=run.first_step)
        plans = run_plan.planned.plans
        if not run.is_trained:
            needed[stage.name] = disk_plan(run_plan)
        specs[stage.name] = model_specs(tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers))
        if stage.parent is not None:
            _check_same_model(stage, stage.parent, specs)
    check_room(needed)


def _check_same_model(stage: Stage, parent: Stage, specs: Mapping[str, TensorSpecs]) -> None:
    """Raises ConfigError if the model of a stage has other tensors than that of the stage from which it starts."""
    difference = first_difference(specs[parent.name], specs[stage.name])
    if difference:
        raise ConfigError(
            f"stage {stage.name}: its model is not that of {parent.name}, which it starts from: {difference}"
        )


def check_room(needed: Mapping[str, DiskPlan]) -> None:
    """Raises ResourceError if the disk has room for the checkpoints of each stage, but not for those of all stages.

    A stage's checkpoints stay when the next one is trained. `needed`: by stage that is still to be trained.
    """
    plans = needed.values()
    total = sum(plan.more * plan.nbytes for plan in plans)
    free = min((plan.free for plan in plans), default=0)
    if total > free:
        raise ResourceError(
            f"not enough room on the disk of {next(iter(plans)).place}: checkpoints of {', '.join(needed)} "
            f"take {format_mib(total)} together, and {format_mib(free)} are free; {format_advice(plans)}"
        )


def stage_table(recipe: Recipe) -> list[tuple[str, ...]]:
    """Returns a table of the stages: headings, then a row for each with key, state, steps, network and test."""
    table: list[tuple[str, ...]] = [("stage", "key", "state", "steps", "network", "test")]
    runs = _runs_with_data(recipe)
    for run in runs:
        state = "done" if run.is_trained else run.state
        steps = f"{max(run.step, 0):,} of {run.stage.config.train.steps:,}"
        table.append((run.stage.name, run.key, state, steps, *_format_network(run)))
    for stage in recipe.stages[len(runs) :]:
        table.append((stage.name, "-", "no data", f"0 of {stage.config.train.steps:,}", "-", "-"))
    return table


def _runs_with_data(recipe: Recipe) -> list[StageRun]:
    """Returns the runs of the stages before the first one whose files are missing."""
    for last in reversed(range(len(recipe.stages))):
        with suppress(UnavailableError):
            return stage_runs(recipe, last)
    return []


def _format_network(run: StageRun) -> tuple[str, str]:
    """Returns the stage's network and the outcome of its test, as text."""
    if not run.stage.options.export:
        return "-", "-"
    network = end.find_current_network(run)
    name = "to do" if network is None else network.name
    if not run.stage.options.test:
        return name, "-"
    code = None if network is None else end.read_test_code(run, network)
    if code is None:
        return name, "to do"
    return name, "failed" if code else "passed"


def _train_stage(
    run: StageRun,
    count: int,
    allow_different_numerics: bool,
    again: Callable[[str], str] | None,
) -> int:
    """Trains one stage. Returns the exit code."""
    stage, config = run.stage, run.config
    if run.step < 0 and run.start is not None:
        _check_start(stage, Path(os.path.expanduser(run.start)))  # noqa: PTH111 (that of Path raises)
    if stage.options.start_with == "checkpoint":
        assert run.start is not None
        copy_start_checkpoint(config, Path(run.start).expanduser())
        config = _without_start(config)
    _notify(f"stage {stage.name}, one of {count}: {run.folder}")
    return train(config, resume=True, allow_different_numerics=allow_different_numerics, again=again)


def _without_start(config: Config) -> Config:
    """Returns a copy of the config of a run that begins with new weights, or from a checkpoint in its own folder."""
    model = config.model.model_copy(update={KEY: None})
    train = config.train.model_copy(update={"start_weights": "newest"})
    return config.model_copy(update={"model": model, "train": train})


def _stages_to_rerun(runs: Sequence[StageRun], rerun: str) -> set[str]:
    """Returns the names of the stage `rerun` and of all stages that follow from it."""
    names = {rerun}
    for run in runs:
        if run.stage.parent is not None and run.stage.parent.name in names:
            names.add(run.stage.name)
    return names


def _check_start(stage: Stage, start: Path) -> None:
    """Verifies all files of the checkpoint that a stage starts from. Raises CheckpointError with what the user can
    do."""
    if not start.is_dir():  # a file is read by the task
        return
    if stage.parent is None:
        subject, advice = "what it starts from", "choose another start_from"
    else:
        subject, advice = f"it starts from {stage.parent.name}", f"--rerun {stage.parent.name} trains that anew"
    with adding_damage_context(f"stage {stage.name}: {subject}", advice):
        verify(find_checkpoint(start))


def _rename_folders(runs: Sequence[StageRun], rerun: str) -> None:
    """Renames the folders of the stage `rerun`, if it is done, and of all stages that follow from it.

    The stage's own folder is renamed last, so that the stage is still found done if the command dies in between. Raises
    ConfigError if a run is going on in one of them, and RunError.
    """
    names = _stages_to_rerun(runs, rerun)
    renamed = [run for run in runs if run.stage.name in names and run.folder.exists()]
    if not any(run.is_trained for run in renamed if run.stage.name == rerun):
        _notify(f"--rerun {rerun}: it is not done, and goes on")
        renamed = [run for run in renamed if run.stage.name != rerun]
    for run in renamed:
        with suppress(OSError):
            if goes_on(run.folder):
                raise ConfigError(f"--rerun {rerun}: {run.folder} is in use by another run")
    for run in reversed(renamed):
        target = _unused_name(run.folder)
        try:
            run.folder.rename(target)
        except OSError as error:
            raise RunError(f"{run.folder}: {error.strerror}") from None
        _notify(f"stage {run.stage.name}: what was there is {target} now")


def _unused_name(folder: Path) -> Path:
    """Returns the first of FOLDER.1, FOLDER.2, ... that does not exist."""
    for number in itertools.count(1):
        path = folder.with_name(f"{folder.name}.{number}")
        if not path.exists():
            return path
    raise AssertionError


def _notify(line: str) -> None:
    sys.stderr.write(f"{line}\n")

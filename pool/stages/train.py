"""Goes through the stages of a recipe: what is done is left alone, what was begun goes on, the rest is trained."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loader.exit_codes import EXIT_DONE
from pool.checkpoint.compare_tensors import Forms, first_difference, forms_of
from pool.checkpoint.folder import linked_step, locate
from pool.checkpoint.state import FOLDER, LAST, read_state, verify
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import ConfigError, DamagedCheckpointError, ResourceError, RunError, UnavailableError
from pool.run_folder.strict_json import ABSENT, said, same
from pool.stages import end
from pool.stages.key import keys, settings
from pool.stages.recipe import Recipe, Stage
from pool.stages.start import begin_with_checkpoint
from pool.supervisor.prepare import preparation
from pool.supervisor.prepare.disk_plan import DiskPlan, advice_for, disk_plan
from pool.supervisor.resources.system_memory import mib
from pool.supervisor.train import train
from pool.task.start import KEY
from pool.telemetry.status import Status, goes_on, read_status, state_of


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
        status = self.status
        if status is None:  # a checkpoint was put there, and no run has begun
            return "new"
        return state_of(status, all_steps=self.step >= self.stage.config.train.steps)

    def check_own(self) -> None:
        """Raises ConfigError if the folder's run went on by itself, so that its weights are not those of the stage;
        DamagedCheckpointError that says what to do."""
        if self.step < 0 or self.status is None:
            return
        with _naming_damage(f"stage {self.stage.name}", f"--rerun {self.stage.name} trains it anew"):
            saved = read_state(self.folder / FOLDER / LAST)
        why = "numbers that --override changed" if saved.optimizer.overrides else ""
        with suppress(ConfigError):  # of another version: its keys may be other ones
            then, now = settings(parse_config(dict(saved.config), "")), settings(self.stage.config)
            other = [key for key in {**then, **now} if not same(then.get(key), now.get(key))]
            if self.step > self.begins and other:
                was, wanted = (said(each.get(other[0], ABSENT)) for each in (then, now))
                why = f"{other[0]} = {was}, the recipe {wanted}"
        if why:
            raise ConfigError(
                f"stage {self.stage.name}: {self.folder} was gone on with by itself: it has {why}; move it elsewhere, "
                "and the stage is trained anew"
            )

    @property
    def begins(self) -> int:
        """The number of steps that are done when it begins."""
        stage = self.stage
        if stage.own.start_with != "checkpoint":
            return 0
        if stage.parent is not None:
            return stage.parent.config.train.steps
        return read_state(locate(Path(stage.start or "").expanduser())).step

    @property
    def status(self) -> Status | None:
        """The run's status; None before a run has begun there."""
        return read_status(self.folder)


def stage_runs(recipe: Recipe, until: int | None = None) -> list[StageRun]:
    """Returns the stages, up to number `until`, with their folders, which the content of their data decides. Raises
    ConfigError."""
    stages = recipe.stages if until is None else recipe.stages[: until + 1]
    known = keys(stages)
    own = ((stage, known[stage.name]) for stage in stages)
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

    `rerun`: a stage that is trained anew, as are those that follow from it; what they left keeps another name. If it is
    not done it goes on, so that the same command goes on after a death.
    `again`: as `pool.supervisor.train.train`.
    """
    count = len(recipe.stages)
    last = count - 1 if until is None else recipe.index(until, "--until")
    if rerun is not None and recipe.index(rerun, "--rerun") > last:
        raise ConfigError(f"--rerun {rerun}: comes behind --until {until}")
    wanted = stage_runs(recipe, last)
    anew = set() if rerun is None else _trained_anew(wanted, rerun)
    for run in wanted:
        if run.stage.name not in anew:  # what it has is set aside
            run.check_own()
        end.check_end(run.stage, run.key, run.folder)
    if rerun is not None:
        _set_aside(_with_data(recipe), rerun)
    folders = {run.stage.name: run.folder for run in wanted}
    for run in wanted:
        if not run.is_trained:
            code = _train(run, folders, count, allow_different_numerics, again)
            if code != EXIT_DONE:
                return code
        end.end_stage(run.stage, run.key, run.folder, _say)
    _say(f"all stages are done: {wanted[last].folder}" if last == count - 1 else f"done up to {until}")
    return EXIT_DONE


def check_stages(recipe: Recipe, show: Callable[[str], object]) -> None:
    """Shows a page about each stage, as `pool check` does of a run, and checks that each can begin with what
    the one before it will leave. Raises what `preparation.check` raises."""
    made: dict[str, Forms] = {}
    needed: dict[str, DiskPlan] = {}  # of the disk, by stage that is to be trained
    for run in stage_runs(recipe):
        stage = run.stage
        run.check_own()
        end.check_end(stage, run.key, run.folder)
        show(f"{'' if not made else chr(10)}Stage {stage.name}: {run.state}\n")
        config = _config(run, stage.start, stage.config.train.start_weights if stage.start else "newest")
        run_plan = preparation.check(config, show, begins=run.begins)
        plans = run_plan.planned.plans
        if not run.is_trained:
            needed[stage.name] = disk_plan(run_plan)
        made[stage.name] = forms_of(tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers))
        parent = stage.parent
        if parent is not None and (difference := first_difference(made[parent.name], made[stage.name])):
            raise ConfigError(
                f"stage {stage.name}: its model is not that of {parent.name}, which it starts from: {difference}"
            )
    check_room(needed)


def check_room(needed: Mapping[str, DiskPlan]) -> None:
    """Raises ResourceError if there is room for each stage, and not for all: what a stage leaves stays."""
    plans = needed.values()
    together, free = sum(plan.more * plan.nbytes for plan in plans), min((plan.free for plan in plans), default=0)
    if together > free:
        raise ResourceError(
            f"not enough room on the disk of {next(iter(plans)).place}: checkpoints of {', '.join(needed)} "
            f"take {mib(together)} together, and {mib(free)} are free; {advice_for(plans)}"
        )


def table(recipe: Recipe) -> list[tuple[str, ...]]:
    """Returns headings, then a row a stage: key, state, steps, network, test."""
    runs = _with_data(recipe)
    return [
        ("stage", "key", "state", "steps", "network", "test"),
        *(
            (
                run.stage.name,
                run.key,
                "done" if run.is_trained else run.state,
                f"{max(run.step, 0):,} of {run.stage.config.train.steps:,}",
                *_end_of(run),
            )
            for run in runs
        ),
        *(
            (stage.name, "-", "no data", f"0 of {stage.config.train.steps:,}", "-", "-")
            for stage in recipe.stages[len(runs) :]
        ),
    ]


def _with_data(recipe: Recipe) -> list[StageRun]:
    """Returns the stages before the first one whose files are not there."""
    for last in reversed(range(len(recipe.stages))):
        with suppress(UnavailableError):
            return stage_runs(recipe, last)
    return []


def _end_of(run: StageRun) -> tuple[str, str]:
    """Returns the stage's network and how its test ended, in words."""
    if not run.stage.own.export:
        return "-", "-"
    network = end.network_wanted(run.stage, run.key, run.folder)
    name = "to do" if network is None else network.name
    if not run.stage.own.test:
        return name, "-"
    code = None if network is None else end.test_outcome(run.stage, network, run.folder)
    return name, "to do" if code is None else "failed" if code else "passed"


def _train(
    run: StageRun,
    folders: Mapping[str, Path],
    count: int,
    allow_different_numerics: bool,
    again: Callable[[str], str] | None,
) -> int:
    stage = run.stage
    start = stage.start if stage.parent is None else str(folders[stage.parent.name])
    if run.step < 0 and start is not None:
        _check_start(stage, Path(os.path.expanduser(start)))  # noqa: PTH111 (that of Path raises)
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


def _trained_anew(runs: Sequence[StageRun], rerun: str) -> set[str]:
    """Returns the names of a stage and of those that follow from it."""
    again = {rerun}
    for run in runs:
        if run.stage.parent is not None and run.stage.parent.name in again:
            again.add(run.stage.name)
    return again


@contextmanager
def _naming_damage(what: str, way_out: str) -> Iterator[None]:
    """Damage of a checkpoint that is read inside is told with whose it is and what to do."""
    try:
        yield
    except DamagedCheckpointError as error:
        raise DamagedCheckpointError(f"{what}: {error}; {way_out}, or put the file back from a copy") from None


def _check_start(stage: Stage, start: Path) -> None:
    """Reads every byte of the checkpoint that a stage starts from. Raises CheckpointError that says what to do."""
    if not start.is_dir():  # a file, which is the task's
        return
    if stage.parent is None:
        what, way_out = "what it starts from", "choose another start_from"
    else:
        what, way_out = f"it starts from {stage.parent.name}", f"--rerun {stage.parent.name} trains that anew"
    with _naming_damage(f"stage {stage.name}: {what}", way_out):
        verify(locate(start))


def _set_aside(runs: Sequence[StageRun], rerun: str) -> None:
    """Renames the folders of a stage, if it is done, and of those that follow from it: they first, so that a command
    that dies in between finds the stage done. Raises RunError."""
    again = _trained_anew(runs, rerun)
    aside = [run for run in runs if run.stage.name in again and run.folder.exists()]
    if not any(run.is_trained for run in aside if run.stage.name == rerun):
        _say(f"--rerun {rerun}: it is not done, and goes on")
        aside = [run for run in aside if run.stage.name != rerun]
    for run in aside:
        with suppress(OSError):
            if goes_on(run.folder):
                raise ConfigError(f"--rerun {rerun}: {run.folder} is in use by another run")
    for run in reversed(aside):
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

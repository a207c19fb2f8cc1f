"""The run that trains a stage: its folder, its config, and its progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pool.checkpoint.folder import find_checkpoint, linked_step
from pool.checkpoint.state import FOLDER, LAST, SavedState, read_state
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import ConfigError, DamagedCheckpointError
from pool.run_folder.strict_json import ABSENT, are_equal, format_value
from pool.stages.key import result_settings, stage_keys
from pool.stages.recipe import Recipe, Stage
from pool.task.start import KEY
from pool.telemetry.status import Status, goes_on, read_status, state_of


@dataclass(frozen=True)
class StageRun:
    """Describes a stage and the run that trains it."""

    stage: Stage
    key: str
    folder: Path
    config: Config  # of the run, with its folder and what it starts from

    @property
    def start(self) -> str | None:
        """Returns the path of the run folder, checkpoint or network file that the run starts from; None for new
        weights."""
        start: str | None = getattr(self.config.model, KEY)
        return start

    @property
    def is_trained(self) -> bool:
        """Tells whether all steps are done and the run has ended successfully."""
        return self.state == "finished"

    @property
    def step(self) -> int:
        """Returns the number of steps done by the newest checkpoint; -1 if there is no checkpoint."""
        with suppress(OSError):
            return linked_step(self.folder / FOLDER, LAST)
        return -1

    @property
    def state(self) -> str:
        """Returns the state of the run as `pool status` names it; "new" if it has not begun."""
        if self.step < 0:
            return "new"
        with suppress(OSError):
            if goes_on(self.folder):
                return "running"
        status = self.status
        if status is None:  # a checkpoint was put there, and no run has begun
            return "new"
        return state_of(status, all_steps=self.step >= self.stage.config.train.steps)

    def check_settings(self) -> None:
        """Raises ConfigError if the run in the stage's folder has other settings than the stage.

        Such a run was continued outside of the recipe, so that its weights are not those of the stage. Raises
        DamagedCheckpointError, with what the user can do, if its checkpoint is damaged.
        """
        if self.step < 0 or self.status is None:
            return
        with adding_damage_context(f"stage {self.stage.name}", f"--rerun {self.stage.name} trains it anew"):
            saved = read_state(self.folder / FOLDER / LAST)
        difference = self._find_difference(saved)
        if difference:
            raise ConfigError(
                f"stage {self.stage.name}: {self.folder} was gone on with by itself: it has {difference}; move it "
                "elsewhere, and the stage is trained anew"
            )

    def _find_difference(self, saved: SavedState) -> str:
        """Describes the first setting of a checkpoint that is not the stage's; "" if there is none."""
        overridden = "numbers that --override changed" if saved.optimizer.overrides else ""
        try:
            saved_settings = result_settings(parse_config(dict(saved.config), ""))
        except ConfigError:  # a checkpoint of another version may have other keys
            return overridden
        settings = result_settings(self.stage.config)
        different = [
            key for key in {**saved_settings, **settings} if not are_equal(saved_settings.get(key), settings.get(key))
        ]
        if not different or self.step <= self.first_step:
            return overridden
        key = different[0]
        saved_value, value = format_value(saved_settings.get(key, ABSENT)), format_value(settings.get(key, ABSENT))
        return f"{key} = {saved_value}, the recipe {value}"

    @property
    def first_step(self) -> int:
        """Returns the number of steps that are done when the stage begins."""
        stage = self.stage
        if stage.options.start_with != "checkpoint":
            return 0
        if stage.parent is not None:
            return stage.parent.config.train.steps
        return read_state(find_checkpoint(Path(stage.start or "").expanduser())).step

    @property
    def status(self) -> Status | None:
        """Returns the run's status; None if no run has begun in the folder."""
        return read_status(self.folder)


def stage_runs(recipe: Recipe, until: int | None = None) -> list[StageRun]:
    """Returns the runs of the stages up to index `until`, or of all stages. Raises ConfigError.

    Training data is read, because the stages' keys, which name their folders, depend on its content.
    """
    stages = recipe.stages if until is None else recipe.stages[: until + 1]
    key_by_name = stage_keys(stages)
    folders = {name: recipe.folder / f"{name}-{key}" for name, key in key_by_name.items()}
    runs = []
    for stage in stages:
        folder, config = folders[stage.name], stage.config
        start = stage.start if stage.parent is None else str(folders[stage.parent.name])
        run = config.run.model_copy(update={"dir": str(folder)})
        model = config.model.model_copy(update={KEY: start})
        config = config.model_copy(update={"run": run, "model": model})
        runs.append(StageRun(stage, key_by_name[stage.name], folder, config))
    return runs


@contextmanager
def adding_damage_context(subject: str, advice: str) -> Iterator[None]:
    """Adds context to a DamagedCheckpointError that is raised within: `subject` is damaged, and `advice` is what the
    user can do."""
    try:
        yield
    except DamagedCheckpointError as error:
        raise DamagedCheckpointError(f"{subject}: {error}; {advice}, or put the file back from a copy") from None

"""Decides where a resumed run goes on, and compares it with its checkpoint.

A resumed run takes the batches that it would have taken without a break. Another model or other numerics are refused.
Numbers of optimizer and schedule come from the checkpoint, even if the config differs, and the user is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.exit_codes import EXIT_DONE
from loader.files.identity import DataFile
from loader.section import Effect
from loader.stream.interface import Cursor
from pool.checkpoint.compare_tensors import first_difference, header_specs, model_specs
from pool.checkpoint.fingerprint import LAYOUT, NATIVE_CODE, differences, differing_keys
from pool.checkpoint.state import STATE, WEIGHTS, OptimizerNumbers, SavedState, read_header, read_state
from pool.config.key_path import walk_fields
from pool.config.member_settings import find_differing_keys, flatten
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, UnavailableError
from pool.exchange.layout import member_prefix
from pool.run_folder.first_steps import STEPS
from pool.run_folder.strict_json import (
    ABSENT,
    are_equal,
    find_changed_entry,
    foreign_content_error,
    format_value,
    have_equal_entry,
    printable,
    value_at,
)
from pool.supervisor.prepare.data_files import compare_files
from pool.supervisor.prepare.repeated_steps import first_steps_agree
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.start import KEY
from pool.telemetry.status import Status, read_status


def resume_point(config: Config, checkpoint: Path | None, files: Sequence[DataFile]) -> tuple[int, Cursor]:
    """Returns the step and the cursor (place in the data) with which a run begins. Without a checkpoint these are step
    0 and the start of the data.

    Raises CheckpointError, or ConfigError and RunError if the run would take other batches than the checkpoint's.
    """
    if checkpoint is None:
        return 0, Cursor()
    saved = saved_state(checkpoint)
    if saved.step > config.train.steps:
        raise ConfigError(f"train.steps: {config.train.steps} is less than the {saved.step} steps done already")
    _compare_fixed(config, checkpoint, saved)
    _check_consistency(config, checkpoint, saved)
    compare_files(saved, files, checkpoint)
    return saved.step, saved.cursor


def _check_consistency(config: Config, checkpoint: Path, saved: SavedState) -> None:
    """Checks that a checkpoint has the state of every member, and begins with the first batch of a step.

    Raises CheckpointError.
    """
    num_members = len(config.members)
    for name, states in (("members", saved.members), ("validations.members", saved.validations.members)):
        if len(states) not in (0, num_members):
            raise foreign_content_error(checkpoint / STATE, f"{name}: {len(states)} entries, of a run of {num_members}")
    first_batch = saved.step * config.train.batches_per_step
    if saved.cursor.batch != first_batch:
        raise foreign_content_error(
            checkpoint / STATE,
            f"cursor.batch: {saved.cursor.batch}, but step {saved.step} begins with batch {first_batch}",
        )


def saved_state(checkpoint: Path) -> SavedState:
    """Reads the state in a checkpoint: step, cursor, config, data files. Raises CheckpointError."""
    try:
        return read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None


def restore_start(config: Config, saved: SavedState) -> tuple[Config, str]:
    """Restores model.start_from, the weights that the run has begun with, which a resumed run can't change.

    Returns the config, and a line for the user if the config has another value, else an empty string.
    """
    saved_start = value_at(saved.config, f"model.{KEY}")
    if not isinstance(saved_start, str):
        saved_start = None
    start = getattr(config.model, KEY)
    restored = config.model_copy(update={"model": config.model.model_copy(update={KEY: saved_start})})
    if start in (None, saved_start):
        return restored, ""
    line = f"model.{KEY} = {start} does nothing in a run that is resumed"
    return restored, f"{line}: it began with {format_value(saved_start or ABSENT)}"


def changed_settings(config: Config, recorded: Mapping[str, Any]) -> str:
    """Returns a line with the settings that differ from a recorded config, or an empty string if none does.

    The folder of the run does not count as a setting.
    """
    old = dict(flatten(recorded))
    new = {key: value for key, value in flatten(config.model_dump(mode="json")) if key in old}
    changes = []
    for key in find_differing_keys([old, new]):
        if key in new:
            changed_key, new_value, old_value = find_changed_entry(key, new[key], old[key])
            changes.append(f"{changed_key} = {format_value(new_value)} (was {format_value(old_value)})")
    return f"changed since the last start: {', '.join(changes)}" if changes else ""


def _compare_fixed(config: Config, checkpoint: Path, saved: SavedState) -> None:
    """Compares the settings that a resumed run must not change. Raises ConfigError for the first that has changed."""
    settings, defaults = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    for key, field in walk_fields(type(config)):
        if Effect.of(field) is not Effect.FIXED:
            continue
        now, then = value_at(settings, key), value_at(saved.config, key)
        if then is None:
            then = value_at(defaults, key)  # a key that is newer than the checkpoint
        if not are_equal(then, now):
            changed_key, now, then = find_changed_entry(key, now, then)
            raise ConfigError(
                f"{changed_key}: {format_value(now)} now, {format_value(then)} in {checkpoint}; a resumed run keeps "
                "it: set it back, or begin another run with model.start_from"
            )


# entries of the fingerprint that follow from the config alone
_CONFIG_ENTRIES = ("batches_per_step", "batches_per_group", "gradient_dtype", "dense products", "members")


def compare_model(run: RunPlan, checkpoint: Path, saved: SavedState, *, to_start: bool = False) -> None:
    """Compares names, dtypes and shapes of the model's tensors with those in a checkpoint.

    `to_start`: the run only begins with the checkpoint's weights, and every member may begin with those of one network.
    Raises ConfigError, which names the first layer that differs; CheckpointError.
    """
    plans = run.planned.plans
    try:
        header = read_header(checkpoint, saved, WEIGHTS)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None
    prefix = member_prefix(0, len(plans))
    is_of_one_network = not any(name.startswith(prefix) for name in header)
    if to_start and is_of_one_network:
        tensors = [
            replace(tensor, name=tensor.name.removeprefix(prefix))
            for tensor in (*plans[0].parameters, *plans[0].buffers)
        ]
    else:
        tensors = [tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers)]
    difference = first_difference(header_specs(header), model_specs(tensors))
    if difference is None:
        return
    changes = _changes("model", run.config.model_dump(mode="json"), saved.config)
    model_changes = ", ".join(change for change in changes if not change.startswith(f"model.{KEY}:"))
    advice = f"; {model_changes}" if model_changes else ""
    raise ConfigError(f"another model than that of {checkpoint}: {difference}{advice}")


def compare_numerics(run: RunPlan, checkpoint: Path, saved: SavedState, folder: RunFolder, *, allowed: bool) -> None:
    """Refuses to resume a run with other numerics, which give other bits (I2), unless that is `allowed`.

    Raises ConfigError if the config has changed the numerics. Raises UnavailableError if the machine or the
    installation has, since an update may restore them. The user gets a note about differences that are accepted.
    """
    then, now = saved.fingerprint, run.planned.fingerprint
    if then.keys() == set(LAYOUT):  # another run's, with which this one begins (pool/stages): only its state has to fit
        now = {entry: now[entry] for entry in LAYOUT}
    description = printable(differences(then, now), 1000)
    if not description:
        return
    changed_keys = {*differing_keys(then, now)}
    if is_finished(run.config, saved, read_status(folder.inside)):
        folder.add_note(f"other numerics: {description}; nothing is left to compute with them")
        return
    if allowed:
        folder.add_note(f"other numerics: {description}; the run is bit for bit the same only up to step {run.step}")
        return
    if changed_keys == {NATIVE_CODE} and first_steps_agree(folder.inside):
        folder.add_note(
            f"another build of sparsepool than that of {checkpoint}: the run's first {STEPS} steps, done again, have "
            "the bits that they had"
        )
        return
    raise _numerics_error(checkpoint, description, changed_keys)


def _numerics_error(checkpoint: Path, description: str, changed_keys: set[str]) -> ConfigError:
    """Returns the error for a run that would be resumed with other numerics. `description`: what has changed."""
    if changed_keys & {*LAYOUT}:
        advice = "go back to the checkpoint's pool.bucket_mb, pool.first_bucket_mb and optimizer"
    else:
        advice = "--allow-different-numerics goes on all the same"
    message = (
        f"other numerics than those of {checkpoint}: {description}; the run would not end with the bits "
        f"it would have had; {advice}"
    )
    comes_from_config = changed_keys & {*LAYOUT, *_CONFIG_ENTRIES}
    return ConfigError(message) if comes_from_config else UnavailableError(message)


def is_finished(config: Config, saved: SavedState, status: Status | None) -> bool:
    """Tells whether a run has no step left to do.

    Either the last step is done, or the run has ended well before it (early stopping) and no setting that decides that
    has changed since. `status`: of the run's last life.
    """
    if saved.step >= config.train.steps:
        return True
    if status is None or status.exit_code != EXIT_DONE:
        return False
    saved_steps = value_at(saved.config, "train.steps")
    saved_early_stopping = value_at(saved.config, "train.early_stopping")
    return bool(saved_steps == config.train.steps and saved_early_stopping == config.train.early_stopping)


def compare_optimizer(
    config: Config, checkpoint: Path, saved: SavedState, folder: RunFolder, overridden: Collection[str] = ()
) -> None:
    """Adds a note for each setting of optimizer and schedule that has changed, which says what value is used.

    `overridden`: keys of `--override`, about which the user knows.
    """
    settings = config.model_dump(mode="json")
    saved_numbers = _format_numbers(saved.optimizer)
    sections = ["optimizer.args", "schedule.args"]
    saved_steps = value_at(saved.config, "train.steps")
    uses_shares = any(member.run_schedule.has_shares for member in config.members)
    if uses_shares and saved_steps != config.train.steps:
        sections.remove("schedule.args")  # they follow from train.steps
        folder.add_note(
            f"train.steps: {config.train.steps} now, {format_value(saved_steps)} then; the schedule is in shares of "
            f"it, and goes on as in a run that has had {config.train.steps} steps from the start"
        )
    for section in sections:
        for change in _changes(section, settings, saved.config):
            key = change.partition(":")[0]
            if key in overridden:
                continue
            if key in saved_numbers:
                active = f"in force is what {checkpoint} holds: {saved_numbers[key]}"
                folder.add_note(f"{change}; {active}; --override {key}=... changes it")
            else:
                folder.add_note(f"{change}; {checkpoint} holds no such number: the config's is in force")
    saved_every = value_at(saved.config, "schedule.every")
    if config.schedule.is_set and saved_every != config.schedule.every:
        folder.add_note(
            f"schedule.every: {config.schedule.every} now, {format_value(saved_every)} then; the config's is in force"
        )


def _format_numbers(state: OptimizerNumbers) -> dict[str, str]:
    """Returns the numbers of optimizers and schedules in a checkpoint, as text by config key. Different numbers of
    several members are separated by commas."""
    first_groups = [groups[0] for groups in state.groups or () if groups]
    texts: dict[str, dict[str, None]] = {}  # by key; the inner keys are an ordered set
    for section, mappings in (("optimizer.args", first_groups), ("schedule.args", state.schedulers)):
        for numbers in mappings:
            for key, value in numbers.items():
                texts.setdefault(f"{section}.{key}", {})[format_value(value)] = None
    return {key: printable(", ".join(values), 500) for key, values in texts.items()}


def _changes(section: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Yields `section.key: value now, value then` for each key of a section in which two configs differ."""
    new, old = value_at(now, section), value_at(then, section)
    if not isinstance(old, dict):
        old = {}
    for key in {**new, **old}:
        if not have_equal_entry(new, old, key):
            new_value, old_value = format_value(new.get(key, ABSENT)), format_value(old.get(key, ABSENT))
            yield f"{section}.{printable(key)}: {new_value} now, {old_value} then"

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
from pool.checkpoint.compare_tensors import first_difference, forms_in, forms_of
from pool.checkpoint.fingerprint import LAYOUT, NATIVE_CODE, differences, differing_keys
from pool.checkpoint.state import STATE, WEIGHTS, OptimizerNumbers, SavedState, read_header, read_state
from pool.config.key_path import walk
from pool.config.member_settings import differing, flat
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, UnavailableError
from pool.exchange.layout import member_prefix
from pool.run_folder.first_steps import STEPS
from pool.run_folder.strict_json import ABSENT, changed_entry, not_ours, printable, said, same, same_entry, value_at
from pool.supervisor.prepare.data_files import compare_files
from pool.supervisor.prepare.repeated_steps import first_steps_agree
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.start import KEY
from pool.telemetry.status import Status, read_status


def resume_point(config: Config, checkpoint: Path | None, files: Sequence[DataFile]) -> tuple[int, Cursor]:
    """Returns the step and the cursor (place in the data) with which a run begins: 0 and the start without a
    checkpoint.

    Raises CheckpointError, or ConfigError and RunError if the run would take other batches than the checkpoint's.
    """
    if checkpoint is None:
        return 0, Cursor()
    saved = saved_state(checkpoint)
    if saved.step > config.train.steps:
        raise ConfigError(f"train.steps: {config.train.steps} is less than the {saved.step} steps done already")
    _compare_fixed(config, checkpoint, saved)
    members = len(config.members)
    for name, of_members in (("members", saved.members), ("validations.members", saved.validations.members)):
        if len(of_members) not in (0, members):
            raise not_ours(checkpoint / STATE, f"{name}: {len(of_members)} entries, of a run of {members}")
    if saved.cursor.batch != saved.step * config.train.batches_per_step:
        raise not_ours(
            checkpoint / STATE,
            f"cursor.batch: {saved.cursor.batch}, but step {saved.step} begins with batch "
            f"{saved.step * config.train.batches_per_step}",
        )
    compare_files(saved, files, checkpoint)
    return saved.step, saved.cursor


def saved_state(checkpoint: Path) -> SavedState:
    """Reads the state in a checkpoint: step, cursor, config, data files. Raises CheckpointError."""
    try:
        return read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None


def with_its_start(config: Config, saved: SavedState) -> tuple[Config, str]:
    """Restores in the config what the run has begun from, since a resumed run can't change that.

    Returns the config, and a line for the user if the config named something else, else an empty string.
    """
    then, now = value_at(saved.config, f"model.{KEY}"), getattr(config.model, KEY)
    then = then if isinstance(then, str) else None
    kept = config.model_copy(update={"model": config.model.model_copy(update={KEY: then})})
    if now in (None, then):
        return kept, ""
    return kept, f"model.{KEY} = {now} does nothing in a run that is resumed: it began with {said(then or ABSENT)}"


def changed_settings(config: Config, then: Mapping[str, Any]) -> str:
    """Returns a line with the settings that differ from those in `then`, or an empty string if none does.

    The folder of the run does not count as a setting.
    """
    before = dict(flat(then))
    now = {key: value for key, value in flat(config.model_dump(mode="json")) if key in before}
    changes = [
        f"{key} = {said(there)} (was {said(was)})"
        for key, there, was in (
            changed_entry(key, now[key], before[key]) for key in differing([before, now]) if key in now
        )
    ]
    return f"changed since the last start: {', '.join(changes)}" if changes else ""


def _compare_fixed(config: Config, checkpoint: Path, saved: SavedState) -> None:
    """Compares the settings that a resumed run must not change. Raises ConfigError for the first that has changed."""
    settings, default = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    for key, field in walk(type(config)):
        if Effect.of(field) is not Effect.FIXED:
            continue
        now, then = value_at(settings, key), value_at(saved.config, key)
        then = value_at(default, key) if then is None else then  # a key that is newer than the checkpoint
        if not same(then, now):
            key, now, then = changed_entry(key, now, then)
            raise ConfigError(
                f"{key}: {said(now)} now, {said(then)} in {checkpoint}; a resumed run keeps it: set it back, or begin "
                "another run with model.start_from"
            )


_OF_CONFIG = ("batches_per_step", "batches_per_group", "gradient_dtype", "dense products", "members")


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
    tensors = [tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers)]
    first = member_prefix(0, len(plans))
    if to_start and not any(name.startswith(first) for name in header):
        of_one = (*plans[0].parameters, *plans[0].buffers)
        tensors = [replace(tensor, name=tensor.name.removeprefix(first)) for tensor in of_one]
    difference = first_difference(forms_in(header), forms_of(tensors))
    if difference is not None:
        changes = _changes("model", run.config.model_dump(mode="json"), saved.config)
        keys = ", ".join(change for change in changes if not change.startswith(f"model.{KEY}:"))
        raise ConfigError(f"another model than that of {checkpoint}: {difference}" + (f"; {keys}" if keys else ""))


def compare_numerics(run: RunPlan, checkpoint: Path, saved: SavedState, folder: RunFolder, *, allowed: bool) -> None:
    """Refuses to resume a run with other numerics, which give other bits (I2), unless that is `allowed`.

    Raises ConfigError if the config has changed the numerics. Raises UnavailableError if the machine or the
    installation has, since an update may restore them. Differences that are accepted are noted for the user.
    """
    then, now = saved.fingerprint, run.planned.fingerprint
    if then.keys() == set(LAYOUT):  # another run's, with which this one begins (pool/stages): only its state has to fit
        now = {entry: now[entry] for entry in LAYOUT}
    different = printable(differences(then, now), 1000)
    if not different:
        return
    changed = {*differing_keys(then, now)}
    if is_finished(run.config, saved, read_status(folder.inside)):
        folder.note(f"other numerics: {different}; nothing is left to compute with them")
        return
    if not allowed and changed == {NATIVE_CODE} and first_steps_agree(folder.inside):
        folder.note(
            f"another build of sparsepool than that of {checkpoint}: the run's first {STEPS} steps, done again, have "
            "the bits that they had"
        )
        return
    if not allowed:
        of_config = changed & {*LAYOUT, *_OF_CONFIG}
        advice = (
            "go back to the checkpoint's pool.bucket_mb, pool.first_bucket_mb and optimizer"
            if changed & {*LAYOUT}
            else "--allow-different-numerics goes on all the same"
        )
        raise (ConfigError if of_config else UnavailableError)(
            f"other numerics than those of {checkpoint}: {different}; the run would not end with the bits "
            f"it would have had; {advice}"
        )
    folder.note(f"other numerics: {different}; the run is bit for bit the same only up to step {run.step}")


def is_finished(config: Config, saved: SavedState, status: Status | None) -> bool:
    """Tells whether a run has no step left to do.

    Either the last step is done, or the run has ended well before it (early stopping) and no setting that decides that
    has changed since. `status`: of the run's last life.
    """
    if saved.step >= config.train.steps:
        return True
    if status is None or status.exit_code != EXIT_DONE:
        return False
    train = config.train
    return [value_at(saved.config, f"train.{key}") for key in ("steps", "early_stopping")] == [
        train.steps,
        train.early_stopping,
    ]


def compare_optimizer(
    config: Config, checkpoint: Path, saved: SavedState, folder: RunFolder, overridden: Collection[str] = ()
) -> None:
    """Notes for the user each setting of optimizer and schedule that has changed, and which value is used."""
    settings = config.model_dump(mode="json")
    in_force = _in_force(saved.optimizer)
    steps = value_at(saved.config, "train.steps")
    follows = steps != config.train.steps and any(member.run_schedule.in_shares for member in config.members)
    if follows:
        folder.note(
            f"train.steps: {config.train.steps} now, {said(steps)} then; the schedule is in shares of it, and goes on "
            f"as in a run that has had {config.train.steps} steps from the start"
        )
    for section in ("optimizer.args",) if follows else ("optimizer.args", "schedule.args"):
        for change in _changes(section, settings, saved.config):
            key = change.partition(":")[0]
            if key in overridden:
                continue
            if key in in_force:
                held = f"in force is what {checkpoint} holds: {in_force[key]}"
                folder.note(f"{change}; {held}; --override {key}=... changes it")
            else:
                folder.note(f"{change}; {checkpoint} holds no such number: the config's is in force")
    then = value_at(saved.config, "schedule.every")
    if config.schedule.is_set and then != config.schedule.every:
        folder.note(f"schedule.every: {config.schedule.every} now, {said(then)} then; the config's is in force")


def _in_force(state: OptimizerNumbers) -> dict[str, str]:
    """Returns the optimizer's and the schedule's numbers in the checkpoint, as text by config key. Several members may
    have different ones."""
    groups = [each[0] for each in state.groups or () if each]
    in_force: dict[str, dict[str, None]] = {}  # each number once, in words
    for section, of_buckets in (("optimizer.args", groups), ("schedule.args", state.schedulers)):
        for numbers in of_buckets:
            for key, value in numbers.items():
                in_force.setdefault(f"{section}.{key}", {})[said(value)] = None
    return {key: printable(", ".join(words), 500) for key, words in in_force.items()}


def _changes(section: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Yields `section.key: value now, value then` for each key of a section in which two configs differ."""
    current, saved = (value_at(config, section) for config in (now, then))
    saved = saved if isinstance(saved, dict) else {}
    for key in {**current, **saved}:
        if not same_entry(current, saved, key):
            new, old = (said(args.get(key, ABSENT)) for args in (current, saved))
            yield f"{section}.{printable(key)}: {new} now, {old} then"

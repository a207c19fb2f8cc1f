"""What a resumed run has in common with the one that wrote its checkpoint, beyond the batches it takes.

Another model or other numerics are refused. What the checkpoint holds of optimizer and schedule wins over the config;
where they differ the user is told what is in force, as the checkpoint's own state says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pool.checkpoint.compare_tensors import first_difference
from pool.checkpoint.fingerprint import differences
from pool.checkpoint.state import WEIGHTS, OptimizerNumbers, SavedState, read_header
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, UnavailableError
from pool.exchange.member_layout import prefix
from pool.run_folder.strict_json import ABSENT, printable, said, same_entry, value_at
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.start import KEY

_LAYOUT = ("buckets", "optimizer")  # of the fingerprint: what the state of a checkpoint is made for
_OF_CONFIG = ("batches_per_step", "batches_per_group", "gradient_dtype", "dense products", "members")


def compare_model(run: RunPlan, checkpoint: Path, saved: SavedState, *, to_start: bool = False) -> None:
    """`to_start`: every member may begin with the weights of the one that the checkpoint holds. Raises ConfigError that
    names the first layer that differs, CheckpointError."""
    plans = run.planned.plans
    try:
        header = read_header(checkpoint, saved, WEIGHTS)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None
    tensors = [tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers)]
    first = prefix(0, len(plans))
    if to_start and not any(name.startswith(first) for name in header):
        of_one = (*plans[0].parameters, *plans[0].buffers)
        tensors = [replace(tensor, name=tensor.name.removeprefix(first)) for tensor in of_one]
    difference = first_difference(header, tensors)
    if difference is not None:
        changes = _changes("model", run.config.model_dump(mode="json"), saved.config)
        keys = ", ".join(change for change in changes if not change.startswith(f"model.{KEY}:"))
        raise ConfigError(f"another model than that of {checkpoint}: {difference}" + (f"; {keys}" if keys else ""))


def compare_numerics(run: RunPlan, checkpoint: Path, saved: SavedState, folder: RunFolder, *, allowed: bool) -> None:
    """Other numerics give other bits (I2), so they have to be asked for. Raises ConfigError if the config makes them,
    UnavailableError if the machine or the installation does, which an update may put back."""
    then, now = saved.fingerprint, run.planned.fingerprint
    different = printable(differences(then, now), 1000)
    if not different:
        return
    if not allowed:
        changed = {key for key in then.keys() | now.keys() if then.get(key) != now.get(key)}
        of_config = changed & {*_LAYOUT, *_OF_CONFIG}
        advice = (
            "go back to the checkpoint's pool.bucket_mb, pool.first_bucket_mb and optimizer"
            if changed & {*_LAYOUT}
            else "--allow-different-numerics goes on all the same"
        )
        raise (ConfigError if of_config else UnavailableError)(
            f"other numerics than those of {checkpoint}: {different}; the run would not end with the bits "
            f"it would have had; {advice}"
        )
    folder.note(f"other numerics: {different}; the run is bit for bit the same only up to step {run.step}")


def compare_optimizer(
    config: Config, checkpoint: Path, saved: SavedState, folder: RunFolder, overridden: Collection[str] = ()
) -> None:
    """Notes for the user about each key of optimizer and schedule that has changed."""
    given = config.model_dump(mode="json")
    in_force = _in_force(saved.optimizer)
    steps = value_at(saved.config, "train.steps")
    follows = steps != config.train.steps and any(member.run_schedule.in_shares for member in config.members)
    if follows:
        folder.note(
            f"train.steps: {config.train.steps} now, {said(steps)} then; the schedule is in shares of it, and goes on "
            f"as in a run that has had {config.train.steps} steps from the start"
        )
    for section in ("optimizer.args",) if follows else ("optimizer.args", "schedule.args"):
        for change in _changes(section, given, saved.config):
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
    """The numbers that optimizer and schedule go on with, by config key; of several members each may have its own."""
    groups = [each[0] for each in state.groups if each]
    found: dict[str, dict[str, None]] = {}  # each number once, in words
    for section, of_buckets in (("optimizer.args", groups), ("schedule.args", state.schedulers)):
        for numbers in of_buckets:
            for key, value in numbers.items():
                found.setdefault(f"{section}.{key}", {})[said(value)] = None
    return {key: printable(", ".join(words), 500) for key, words in found.items()}


def _changes(section: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """`section.key: value now, value then` for each key of a section of two configs that differs."""
    given, saved = (value_at(config, section) for config in (now, then))
    saved = saved if isinstance(saved, dict) else {}
    for key in {**given, **saved}:
        if not same_entry(given, saved, key):
            new, old = (said(args.get(key, ABSENT)) for args in (given, saved))
            yield f"{section}.{printable(key)}: {new} now, {old} then"

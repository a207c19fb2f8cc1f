"""Prepares a run before its first process starts: finds its files, makes its plan, compares both with the checkpoint.

Every problem is reported in one clear line here, when nothing was started or written yet but the run folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pool.checkpoint.overrides import Override
from pool.checkpoint.state import SavedState
from pool.config.member_settings import group_equal_settings
from pool.config.tree import Config
from pool.device.names import check_devices
from pool.errors import PoolError, ResourceError, UnavailableError
from pool.machines.rank import MachineRank
from pool.metrics.medians import format_members
from pool.protocol.address import new_key
from pool.protocol.identity import COORDINATOR, Peer
from pool.supervisor.prepare import data_files
from pool.supervisor.prepare.check_page import check_page
from pool.supervisor.prepare.data_counts import epochs_to_steps, validation_samples
from pool.supervisor.prepare.data_files import DataFiles
from pool.supervisor.prepare.data_size import describe_mixture, warn_of_repeated_validation
from pool.supervisor.prepare.disk_plan import check_disk, disk_plan
from pool.supervisor.prepare.gpu_page import gpu_notes
from pool.supervisor.prepare.learning_rate import rate_lines
from pool.supervisor.prepare.memory import describe_shortage, format_table, memory_plan
from pool.supervisor.prepare.overrides import collect_overrides
from pool.supervisor.prepare.planner_request import ask_planner
from pool.supervisor.prepare.preflight import (
    check_current_folder,
    check_descriptors,
    check_folder,
    check_start_weights,
    check_trace,
    check_validation,
)
from pool.supervisor.prepare.resume import (
    changed_settings,
    compare_model,
    compare_numerics,
    compare_optimizer,
    restore_start,
    resume_point,
    saved_state,
)
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.forkserver import ForkServer
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.signals import StopSignals
from pool.supervisor.resources.system_memory import available_memory
from pool.task.registry import load_task_module
from pool.task.start import check_member_starts, start_checkpoint
from pool.telemetry.prometheus import check_prometheus


def prepare_run(
    config: Config,
    folder: RunFolder,
    signals: StopSignals,
    *,
    allow_different_numerics: bool = False,
    changes: Sequence[tuple[str, Any]] = (),
    rank: MachineRank | None = None,
    step: int | None = None,
) -> tuple[RunPlan, ForkServer]:
    """Prepares a run. Returns its plan, and the fork server.

    `changes`: keys and values of `--override`; `rank`: this machine's rank among several, or None; `step`: on which
    the machines have agreed to begin with, or None for the newest. Raises ConfigError, ResourceError, RunError; the
    last also for a signal to stop.
    """
    check_folder(folder.inside)
    check_trace(config)
    check_prometheus(config.telemetry.prometheus)
    checkpoint = folder.find_last_checkpoint()
    if step is not None:
        checkpoint = None if step == 0 else folder.select_checkpoint(step)
    saved = None if checkpoint is None else saved_state(checkpoint)
    overrides = collect_overrides(saved, changes, folder)
    notes = []
    if saved is not None:
        config, start_note = restore_start(config, saved)
        notes.append(start_note)
    files = _find_files(config, saved)
    config, steps_note = epochs_to_steps(config, files.data["train"], signals)
    if saved is not None:
        notes.append(changed_settings(config, folder.read_config()))
    notes.append(steps_note)
    for note in filter(None, notes):
        folder.add_note(note)
    run, forkserver = _plan_run(config, files, folder.inside, folder.logs, checkpoint, signals, overrides)
    run = replace(run, rank=rank)
    try:
        for note in (*files.notes, *data_files.describe_cut_files(run)):
            folder.add_note(note)
        check_disk(disk_plan(run))
        if run.start_from is not None:
            folder.add_note(f"starting with the weights of {run.start_from}")
        if checkpoint is not None and saved is not None:
            compare_model(run, checkpoint, saved)
            compare_optimizer(config, checkpoint, saved, folder, {key for key, _ in changes})
            compare_numerics(run, checkpoint, saved, folder, allowed=allow_different_numerics)
    except PoolError:
        forkserver.end()
        raise
    for note in _plan_notes(run):
        folder.add_note(note)
    return run, forkserver


def _plan_notes(run: RunPlan) -> Iterator[str]:
    """Yields lines for the user about what a run will do that may not be intended, and about its learning rate."""
    config = run.config
    if config.train.validate_every and not config.has_validations:
        yield "no validations: data.validation names no file"
    is_single_machine = run.rank is None
    if is_single_machine and run.idle_devices is not None:
        yield run.idle_devices
    yield from run.planned.about_devices
    yield from gpu_notes(run)
    yield f"learning rate: {'; '.join(rate_lines(run))}"
    average_note = config.train.average.find_warning(config.train.steps)
    for note in (describe_mixture(run), warn_of_repeated_validation(run), average_note):
        if note is not None:
            yield note
    for group in group_equal_settings([member.model_dump(mode="json") for member in config.members]):
        yield f"{format_members(group)} have the same settings, seed included: they are the same network"


def check_run(config: Config, show: Callable[[str], object], machines: int = 1, *, begins: int = 0) -> RunPlan:
    """Checks a run without making or starting anything, and shows a page about it. Returns its plan.

    The checks are those of `prepare_run` and `reserve_memory`. `machines`: number of machines that compute the run;
    `begins`: number of steps that are done when the run starts. Raises ConfigError, ResourceError, RunError. Errors
    about missing devices, memory and disk are raised after the page was shown.
    """
    check_trace(config)
    check_prometheus(config.telemetry.prometheus)
    run_dir = config.run_dir
    with tempfile.TemporaryDirectory(prefix="pool-check-") as logs:
        files = _find_files(config, None)
        config, _ = epochs_to_steps(config, files.data["train"], None)
        run, forkserver = _plan_run(config, files, Path(logs), Path(logs), None, only_check=True, begins=begins)
        forkserver.end()
    run = replace(run, run_dir=run_dir)
    memory, available = memory_plan(run, run.memory_map().sizes()), available_memory()
    disk = disk_plan(run)
    show(check_page(run, disk, format_table(memory, available), machines))
    if run.planned.missing:
        raise UnavailableError(run.planned.missing)
    check_disk(disk)
    shortage = describe_shortage(memory, available)
    if shortage is not None:
        raise ResourceError(shortage)
    return run


def _find_files(config: Config, saved: SavedState | None) -> DataFiles:
    """Checks the current folder and the settings of validations, then finds the data files."""
    check_current_folder()
    check_validation(config)
    return data_files.find_data_files(config, saved)


def _plan_run(
    config: Config,
    files: DataFiles,
    run_dir: Path,
    logs: Path,
    checkpoint: Path | None,
    signals: StopSignals | None = None,
    overrides: tuple[Override, ...] = (),
    *,
    only_check: bool = False,
    begins: int = 0,
) -> tuple[RunPlan, ForkServer]:
    """Has the planner plan a run. Returns the plan, and the fork server.

    `checkpoint`: to resume from, or None; `only_check`: missing devices are reported, and are no error; `begins`:
    number of steps that count as done. Raises ConfigError, ResourceError, RunError.
    """
    check_devices(config.pool.devices, config.testing.device_module)  # before the planner imports torch
    check_descriptors(config)
    samples = validation_samples(config, files.data["validate"], signals)
    step, cursor = resume_point(config, checkpoint, files.train)
    module = load_task_module(config.task)
    start_from = None
    if checkpoint is None:
        start_from = start_checkpoint(config.model, module, config.task)
        check_member_starts(config.model, [member.model for member in config.members], module, config.task)
        check_start_weights(config, start_from)
    run, forkserver = ask_planner(
        RunPlan(
            config=config,
            run_dir=run_dir,
            address_key=new_key(),
            coordinator=Peer(COORDINATOR),
            data=files.data,
            validation_digests=files.validation_digests,
            step=step or begins,
            cursor=cursor,
            checkpoint=checkpoint,
            snapshot=None,
            saved=-1 if checkpoint is None else step,
            overrides=overrides,
            only_check=only_check,
            start_from=None if start_from is None else start_from.absolute(),
            validation_samples=samples,
        ),
        logs,
        signals,
    )
    try:
        if run.start_from is not None:
            compare_model(run, run.start_from, saved_state(run.start_from), to_start=True)
    except PoolError:
        forkserver.end()
        raise
    return run, forkserver

"""Runs a training run from start to end: prepares, supervises and ends it, and prints its closing lines. Never imports
torch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_DONE
from pool import crash_points
from pool.checkpoint.state import AVERAGE, BEST, FOLDER
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError, RunError
from pool.exchange.exchange_choice import HOST
from pool.machines.follower import MachineRefused, RunEnded, StartGeneration, StopGeneration
from pool.machines.group import MachineGroup
from pool.machines.start import find_lone_machine_warning
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import RunReport
from pool.run_folder.access import show_real_paths
from pool.run_folder.records import METRICS
from pool.supervisor.outcome import collect_outcome, run_end_program
from pool.supervisor.prepare.data_files import check_unchanged_at_end
from pool.supervisor.prepare.machine_facts import config_facts, plan_facts
from pool.supervisor.prepare.memory import reserve_memory
from pool.supervisor.prepare.preparation import prepare_run
from pool.supervisor.processes.reaper import Orphans
from pool.supervisor.resources.logs import log_to_folder
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.signals import StopSignals
from pool.supervisor.summary import closing_lines
from pool.supervisor.supervisor import KILL_SECONDS, Supervisor
from pool.task.registry import is_bundled, load_task_module
from pool.telemetry import trace
from pool.telemetry.progress import ProgressLine

log = logging.getLogger(__name__)


def train(
    config: Config,
    *,
    resume: bool,
    allow_different_numerics: bool = False,
    changes: Sequence[tuple[str, Any]] = (),
    again: Callable[[str], str] | None = None,
    group: MachineGroup | None = None,
) -> int:
    """Runs a training run to its end. Returns the exit code. Raises PoolError with what the user has to know.

    `changes`: keys and values of `--override`; `again`: makes the command that resumes a run in a folder, shown when
    the run is stopped; `group`: connection to the other machines of the run, closed at its end.
    """
    orphans = Orphans()
    folder = RunFolder(config, resume=resume)
    try:
        with StopSignals() as signals:
            run = _Run(config, folder, signals, ProgressLine(), again, resume, group)
            try:
                code = _supervise(run, allow_different_numerics, changes)
            except (PoolError, OSError) as error:
                refusal = _refusal(error, folder)
                run.ended(refusal.exit_code, str(refusal))
                raise refusal from None
            run.ended(code)
            return code
    finally:
        orphans.end(KILL_SECONDS)
        folder.close()
        if group is not None:
            group.close()


@dataclass
class _Run:
    """Holds config, folder, signals and newest report of one training run."""

    config: Config
    folder: RunFolder
    signals: StopSignals
    progress: ProgressLine
    again: Callable[[str], str] | None
    resume: bool
    group: MachineGroup | None = None
    report: RunReport | None = None  # newest report of the coordinator

    def ended(self, code: int, reason: str = "") -> None:
        """Records how the run has ended, and starts the user's program `train.on_end`."""
        self.folder.record_end(code, reason)
        if self.config.train.on_end:
            outcome = collect_outcome(self.config, self.folder, self.report, code, reason, self.again)
            run_end_program(self.config.train.on_end, outcome, self.folder, self.signals, self.progress.say)


def _refusal(error: PoolError | OSError, folder: RunFolder) -> PoolError:
    """Converts an error that ends the run to one with a line for the user and an exit code."""
    if isinstance(error, PoolError):
        return PoolError(show_real_paths(str(error)), error.exit_code)
    log.error("the run ends", exc_info=error)  # want of memory, descriptors or processes is no bug
    return RunError(show_real_paths(f"{error.filename or folder.path}: {error.strerror or error}"))


def _supervise(run: _Run, allow_different_numerics: bool, changes: Sequence[tuple[str, Any]]) -> int:
    """Prepares the run, supervises it, and shows its closing lines. Returns the exit code."""
    config, folder, progress = run.config, run.folder, run.progress
    logging.raiseExceptions = False  # a full disk loses log lines, nothing else
    log_to_folder(folder.logs)
    crash_points.arm(config.testing.crash_points, Peer(SUPERVISOR))
    progress.say(f"run {folder.path}: preparing")
    if config.run.trace:
        trace.clear(folder.inside)
    if run.group is None and (line := find_lone_machine_warning(os.environ)):
        progress.say(line)
    begin = None if run.group is None else _agree(run, run.group)
    if begin is None:
        run.group = None
    plan, forkserver = prepare_run(
        config,
        folder,
        run.signals,
        allow_different_numerics=allow_different_numerics,
        changes=changes,
        rank=None if run.group is None or begin is None else run.group.rank_in_generation(begin.generation),
        step=None if begin is None else begin.step,
    )
    run.config = plan.config
    if run.group is not None:
        run.group.follower.add_facts(plan_facts(plan))
    try:
        folder.write_config(plan.config, plan.overrides)
        supervisor = Supervisor(plan, reserve_memory(plan), forkserver, folder, run.signals, progress, run.group)
    except BaseException:
        forkserver.end()
        raise
    for note in folder.pop_notes():
        log.warning("%s", note)
        progress.say(note)
    if plan.checkpoint is not None:
        progress.say(f"resuming from {plan.checkpoint}, step {plan.step}")
    exchange = plan.planned.exchange
    said = f"; {exchange}" if exchange != HOST else ""
    progress.say(f"workers on {', '.join(plan.planned.devices)}{said}; data.threads = {plan.decoding_threads}")
    try:
        code = supervisor.run()
        if code == EXIT_DONE:
            check_unchanged_at_end(plan)
    except (PoolError, OSError) as error:
        if unsaved := supervisor.describe_unsaved_steps():
            progress.say(unsaved)
        if run.group is not None and not isinstance(error, ConfigError):  # else this machine alone can't take part
            run.group.report_end(str(_refusal(error, folder)))
        raise
    finally:
        supervisor.end_all()
        run.report = supervisor.last_report
        progress.close()
        for line in supervisor.skipped.lines():
            progress.say(line)
        if (trace_file := config.trace_file) is not None:
            progress.say(trace.finish(folder.inside, trace_file))
    if run.report is not None and run.report.unwritten and code != EXIT_DONE:
        progress.say(f"{METRICS} lacks the newest lines: there was no room for them")
    for line in _closing_lines(config, folder, run.report, run.again if code != EXIT_DONE else None):
        progress.say(line)
    if code != EXIT_DONE and run.group is not None:
        if run.report is not None and run.report.stopped_elsewhere:
            progress.say("another machine was told to stop")
        progress.say("to go on: the same command with --resume, on each machine")
    return code


def _agree(run: _Run, group: MachineGroup) -> StartGeneration | None:
    """Waits until all machines have agreed on the step to begin with.

    Returns None if this machine has the run's last step and no other machine is running, since the others are done too.
    Raises ConfigError, RunError.
    """
    run.folder.find_last_checkpoint()  # damaged ones are set aside
    steps = run.folder.checkpoint_steps()
    has_last = run.config.train.steps in steps and not run.config.train.epochs  # epochs are not converted to steps yet
    group.follower.add_facts(config_facts(run.config, group.rank.num_machines))
    group.follower.report_steps(steps, copies=run.resume)

    def given_up() -> bool:
        run.signals.drain()
        return run.signals.count > 0 or (has_last and group.is_alone)

    timeout = run.config.pool.machine_timeout
    match group.wait_for_decision(lambda: run.folder.inside / FOLDER, given_up, run.progress.say, timeout):
        case StartGeneration() as begin:
            run.progress.say(
                f"machine {group.rank.machine} of {group.rank.num_machines}: begins with step {begin.step}"
            )
            return begin
        case MachineRefused(why):
            raise ConfigError(why)
        case RunEnded(why) | StopGeneration(why):
            raise RunError(why or "the run is over on the other machines", EXIT_CRASH_LOOP)
        case None if run.signals.count == 0:
            last = f"step {run.config.train.steps}, the last, is in a checkpoint here"
            run.progress.say(f"{last}, and no other machine is heard")
            return None
        case None:
            raise RunError("stopped while it waited for the other machines", run.signals.exit_code)


def _closing_lines(
    config: Config, folder: RunFolder, report: RunReport | None, again: Callable[[str], str] | None
) -> Iterator[str]:
    """Yields the closing lines of a run, with paths as the user knows them."""
    module = load_task_module(config.task)
    name = None if is_bundled(config.task) else config.task
    run_dir = config.run.dir
    if folder.moved_to is not None:
        run_dir = str(folder.moved_to)
    elif run_dir.startswith("~"):  # in quotes, as another character may need them, the shell would leave it
        run_dir = str(config.run_dir)
    suffix = getattr(module, "EXPORT_SUFFIX", "")
    averaged = (folder.inside / FOLDER / BEST / AVERAGE).exists()
    resume = None if again is None else again(run_dir)
    return closing_lines(run_dir, report, resume, name, suffix, members=len(config.members), averaged=averaged)

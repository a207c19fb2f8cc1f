"""Exports a run's numbered nets and runs the user's command with each, beside training (`pool.nets`).

Only at its end does the run wait for these programs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from loader.exit_codes import EXIT_RESOURCES
from loader.files.whole_file import temporary_path
from pool.checkpoint.folder import list_checkpoints, step_of, step_path
from pool.checkpoint.state import FOLDER
from pool.errors import CheckpointError
from pool.export.command import export_command
from pool.nets.numbers import join_numbers, parse_numbers
from pool.nets.record import NETS, RECORD, NetPlan, NetState, net_file_name, read_record, write_record
from pool.protocol.messages import NetNumbers, NetsStatus, RunReport
from pool.run_folder import files
from pool.run_folder.access import make_folder
from pool.run_folder.room import has_room
from pool.supervisor.listeners import Action, SendRoster
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.program import Program, describe_exit
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.registry import load_task_module

log = logging.getLogger(__name__)

ALL_STEPS = (1 << 63) - 1  # a step after every other
EXPORT, ON_EXPORT = "export", "on_export"  # jobs, and the names of their logs


@dataclass(frozen=True)
class _Result:
    """Holds the result of a program that has ended."""

    exit_code: int  # negative for a signal
    output: str
    last_error: str  # last line of the program's errors


@dataclass
class _Job:
    """Holds the commands for the nets of a step, one for each member (network of the run), run one after the other."""

    name: str
    step: int
    commands: Sequence[Sequence[str]]
    folder: Path  # folder of the nets
    results: list[_Result] = field(default_factory=list)  # results of the commands that have ended
    program: Program | None = None  # the program that runs now


class NumberedNets:
    """Runs export programs and the user's commands, at most one of each at a time."""

    def __init__(
        self, run: RunPlan, folder: RunFolder, poller: zmq.Poller, print_line: Callable[[str], object]
    ) -> None:
        """Reads which nets an earlier process of the run has finished.

        `poller`: watches the programs; `print_line`: shows a line to the user. Raises OSError.
        """
        self._task, self._train = run.config.task, run.config.train
        self._folder = folder
        self._poller = poller
        self._print_line = print_line
        self._saved = run.saved  # step of the newest checkpoint
        members = range(len(run.planned.plans))
        self._members: Sequence[int | None] = members if len(members) > 1 else [None]
        self._suffix = getattr(load_task_module(self._task), "EXPORT_SUFFIX", "")
        self._jobs: dict[str, _Job] = {}  # jobs that run now, by name
        self._unconfirmed: NetNumbers | None = None  # numbers that the coordinator has not confirmed yet
        self._is_stopped = False
        self._has_shown_wait = False  # the user was told that the run waits for nets
        states = read_record(folder.inside) if self._train.export_every else {}
        valid_states = {step: net for step, net in states.items() if step <= run.step}
        self._plan = NetPlan(self._train.export_every, bool(self._train.on_export), valid_states)
        if valid_states != states:  # later steps are repeated, and other nets may follow from them
            self._write_record()
        self._list_checkpoints()

    @property
    def status(self) -> NetsStatus:
        """Returns which nets are finished, for the coordinator."""
        if self._is_stopped or not self._train.export_every:
            return NetsStatus((), ALL_STEPS)
        pending = self._plan.unfinished_steps
        finished_step = pending[0] - 1 if pending else max(0, self._saved)
        return NetsStatus(() if self._unconfirmed is None else (self._unconfirmed,), finished_step)

    @property
    def pids(self) -> set[int]:
        """Returns the process ids of the programs that run now."""
        return {job.program.pid for job in self._jobs.values() if job.program is not None}

    def handle_report(self, report: RunReport) -> None:
        """Handles a report of the coordinator: new checkpoints to export, numbers of nets that are in the metrics."""
        if report.checkpoint != self._saved:
            self._saved = report.checkpoint
            self._list_checkpoints()
        if self._unconfirmed is not None and report.noted >= self._unconfirmed.step:
            self._record(self._unconfirmed.step, NetState.DONE)
            self._unconfirmed = None
        if report.waits_for_nets:
            self._show_wait(len(self._plan.unfinished_steps))

    def _show_wait(self, num_nets: int) -> None:
        """Tells the user, once, for how many nets the run waits at its end."""
        if self._has_shown_wait or num_nets == 0:
            return
        self._has_shown_wait = True
        nets = f"{num_nets} net" if num_nets == 1 else f"{num_nets} nets"
        work = "exported and tried" if self._train.on_export else "exported"
        self._print_line(
            f"all steps are done; waiting for {nets} to be {work} (Ctrl-C: end now, --resume does the rest)"
        )

    def poll(self, events: Mapping[object, int]) -> Sequence[Action]:
        """Handles programs that have ended, by `events` of the poller, and starts the next ones.

        Returns an order to send the roster if `status` has changed.
        """
        old_status = self.status
        ended_jobs = [job for job in self._jobs.values() if self._advance(job, events)]
        for job in ended_jobs:
            del self._jobs[job.name]
            if job.name == EXPORT:
                self._finish_export(job)
            else:
                self._finish_trial(job)
        if not self._is_stopped:
            self._start_export()
            self._start_trial()
        return [] if self.status == old_status else [SendRoster()]

    def stop(self) -> None:
        """Ends the programs that run, and starts no more."""
        self._is_stopped = True
        for job in self._jobs.values():
            if job.program is not None:
                self._poller.unregister(job.program.pidfd)
                job.program.end()
                job.program.close()
        self._jobs.clear()

    def _list_checkpoints(self) -> None:
        """Updates the list of checkpoints from which nets can be exported."""
        if not self._train.export_every:
            return
        try:
            self._plan.checkpoints = [step_of(path) for path in list_checkpoints(self._folder.inside / FOLDER)]
        except OSError as error:
            log.warning("checkpoints can't be listed: %s", error)

    def _start_export(self) -> None:
        """Starts the export of the next step's nets into a temporary folder, whose files are moved when all are
        written."""
        if EXPORT in self._jobs or not self._plan.steps_to_export:
            return
        step, weights = self._plan.steps_to_export[0], self._train.export_weights
        run = self._public_path
        temporary_folder = temporary_path(run / NETS / net_file_name(step, ""))
        commands = []
        try:
            make_folder(self._folder.inside / NETS)
            files.sweep(self._folder.inside / NETS)  # remove files of a supervisor that was killed
            (self._folder.inside / NETS / temporary_folder.name).mkdir(0o700)
            checkpoint = step_path(run / FOLDER, step)
            for member in self._members:
                path = temporary_folder / net_file_name(step, self._suffix, member)
                commands.append(export_command(checkpoint, path, self._task, weights, member))
        except OSError as error:
            self._give_up(step, str(error), has_room=False)
        except CheckpointError as error:
            self._give_up(step, str(error), has_room=True)
        else:
            self._run_next(_Job(EXPORT, step, commands, temporary_folder))

    def _start_trial(self) -> None:
        """Starts the user's command with the nets of the next step whose nets are exported."""
        step = self._plan.next_step_to_try
        if ON_EXPORT in self._jobs or self._unconfirmed is not None or step is None:
            return
        nets = self._public_path / NETS
        paths = [nets / net_file_name(step, self._suffix, member) for member in self._members]
        commands = [_fill_placeholders(self._train.on_export, step, path) for path in paths]
        self._run_next(_Job(ON_EXPORT, step, commands, nets))

    @property
    def _public_path(self) -> Path:
        """Returns the path by which other programs find the run folder, which may have been moved."""
        moved_to = self._folder.moved_to
        return self._folder.path if moved_to is None else moved_to

    def _run_next(self, job: _Job) -> None:
        """Starts the next command of a job. A command that can't be started counts as failed."""
        self._jobs[job.name] = job
        job.program = None
        logs = self._folder.logs / f"{job.name}.out.log", self._folder.logs / f"{job.name}.log"
        while job.program is None and len(job.results) < len(job.commands):
            try:
                command = job.commands[len(job.results)]
                job.program = Program("pool.process.become", command, output=logs[0], errors=logs[1])
                self._poller.register(job.program.pidfd, zmq.POLLIN)
            except OSError as error:
                job.results.append(_Result(EXIT_RESOURCES, "", f"no process for it: {error.strerror}"))

    def _advance(self, job: _Job, events: Mapping[object, int]) -> bool:
        """Starts a job's next command if its program has ended. Returns whether all commands have ended."""
        program = job.program
        if program is None:
            return True
        program.cut_logs()
        if program.pidfd not in events:
            return False
        self._poller.unregister(program.pidfd)
        job.results.append(_Result(program.end(), program.output(), program.close()))
        self._run_next(job)
        return job.program is None

    def _finish_export(self, job: _Job) -> None:
        """Moves the nets of a step to their final names, once all are on the disk. Gives up the step if an export has
        failed."""
        temporary_folder = self._folder.inside / NETS / job.folder.name
        failed = next((result for result in job.results if result.exit_code), None)
        try:
            if failed is None:
                files.publish(temporary_folder)
                self._record(job.step, NetState.WRITTEN)
            else:
                reason = failed.last_error.removeprefix("pool: ").replace(f"{temporary_folder.name}/", "")
                has_room_now = failed.exit_code != EXIT_RESOURCES and has_room(self._folder.inside)
                self._give_up(job.step, reason or describe_exit(failed.exit_code), has_room=has_room_now)
        except OSError as error:
            self._give_up(job.step, str(error), has_room=False)
        finally:
            files.remove_quietly(temporary_folder)

    def _finish_trial(self, job: _Job) -> None:
        """Collects the numbers that the user's commands have printed, for the coordinator. Tells the user about
        commands that have failed."""
        numbers: list[Mapping[str, float]] = []
        for result in job.results:
            if result.exit_code:
                reason = describe_exit(result.exit_code)
                if result.last_error:
                    reason = f"{reason}: {result.last_error}"
                self._print_line(f"train.on_export with the net of step {job.step}: {reason}; training goes on")
                numbers.append({})
            else:
                numbers.append(parse_numbers(result.output))
        if any(numbers):
            self._unconfirmed = join_numbers(job.step, numbers)
        else:
            self._record(job.step, NetState.DONE)

    def _give_up(self, step: int, reason: str, *, has_room: bool) -> None:
        """Goes on without the nets of a step. If the disk has no room, a resumed run exports them. `reason`: for the
        user."""
        line = f"nets of step {step} are not written: {reason}"
        if has_room:
            self._print_line(f"{line}; training goes on")
            self._record(step, NetState.NOT_WRITTEN)
        else:
            self._print_line(f"{line}; training goes on, and a resumed run tries again: make room")
            self._plan.postponed.add(step)

    def _record(self, step: int, state: NetState) -> None:
        self._plan.states[step] = state
        self._write_record()

    def _write_record(self) -> None:
        try:
            write_record(self._folder.inside, self._plan.states)
        except OSError as error:
            self._print_line(
                f"{NETS}/{RECORD} is not written: {error.strerror}; a resumed run does again what it lacks"
            )


def _fill_placeholders(command: Sequence[str], step: int, net: Path) -> list[str]:
    """Returns the user's command with {net} and {step} replaced by the path and the step of a net.

    Both are replaced in one pass, since a path may itself contain the text {step}.
    """
    values = {"{net}": str(net), "{step}": str(step)}
    pattern = "|".join(map(re.escape, values))
    return [re.sub(pattern, lambda match: values[match[0]], argument) for argument in command]

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
from pool.checkpoint.folder import checkpoints, step_of, step_path
from pool.checkpoint.state import FOLDER
from pool.errors import CheckpointError
from pool.export.command import export_command
from pool.nets.numbers import join_numbers, parse_numbers
from pool.nets.record import NETS, RECORD, Net, NetPlan, net_name, read_record, write_record
from pool.protocol.messages import NetNews, NetNumbers, RunReport
from pool.run_folder import files
from pool.run_folder.access import make_folder
from pool.run_folder.room import has_room
from pool.supervisor.listeners import Action, SendRoster
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.program import Program, ended
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.registry import load_task_module

log = logging.getLogger(__name__)

FOREVER = (1 << 63) - 1
EXPORT, ON_EXPORT = "export", "on_export"  # jobs, and the names of their logs


@dataclass(frozen=True)
class _Result:
    """Holds the result of a program that has ended."""

    code: int  # exit code of the program, negative for a signal
    output: str
    last_line: str  # last line of its errors


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

    def __init__(self, run: RunPlan, folder: RunFolder, poller: zmq.Poller, say: Callable[[str], object]) -> None:
        """Reads which nets an earlier process of the run has finished.

        `poller`: watches the programs; `say`: shows a line to the user. Raises OSError.
        """
        self._task, self._train = run.config.task, run.config.train
        self._folder = folder
        self._poller = poller
        self._say = say
        self._saved = run.saved
        members = range(len(run.planned.plans))
        self._members: Sequence[int | None] = members if len(members) > 1 else [None]
        self._suffix = getattr(load_task_module(self._task), "EXPORT_SUFFIX", "")
        self._jobs: dict[str, _Job] = {}  # jobs that run now, by name
        self._numbers: NetNumbers | None = None  # not yet confirmed by the coordinator
        self._stopped = False
        self._is_waiting = False  # the user was told that the run waits for nets
        states = read_record(folder.inside) if self._train.export_every else {}
        known = {step: net for step, net in states.items() if step <= run.step}
        self._plan = NetPlan(self._train.export_every, bool(self._train.on_export), known)
        if known != states:  # later steps are done again, and other nets may follow from them
            self._write_record()
        self._list_checkpoints()

    @property
    def news(self) -> NetNews:
        """Returns the state of the nets, for the coordinator."""
        if self._stopped or not self._train.export_every:
            return NetNews((), FOREVER)
        unsettled = self._plan.unsettled
        settled = unsettled[0] - 1 if unsettled else max(0, self._saved)
        return NetNews(() if self._numbers is None else (self._numbers,), settled)

    @property
    def pids(self) -> set[int]:
        """Returns the process ids of the programs that run now."""
        return {job.program.pid for job in self._jobs.values() if job.program is not None}

    def report(self, report: RunReport) -> None:
        """Receives a report of the coordinator: new checkpoints to export, numbers of nets that were recorded."""
        if report.checkpoint != self._saved:
            self._saved = report.checkpoint
            self._list_checkpoints()
        if self._numbers is not None and report.noted >= self._numbers.step:
            self._record(self._numbers.step, Net.DONE)
            self._numbers = None
        if report.waits_for_nets and not self._is_waiting and (count := len(self._plan.unsettled)):
            self._is_waiting = True
            what = f"{count} net{'' if count == 1 else 's'} to be exported{' and tried' * bool(self._train.on_export)}"
            self._say(f"all steps are done; waiting for {what} (Ctrl-C: end now, --resume does the rest)")

    def hear(self, events: Mapping[object, int]) -> Sequence[Action]:
        """Handles programs that have ended, by `events` of the poller, and starts the next ones.

        Returns an order to send the roster if `news` has changed.
        """
        before = self.news
        for job in [job for job in self._jobs.values() if self._is_over(job, events)]:
            del self._jobs[job.name]
            if job.name == EXPORT:
                self._finish_export(job)
            else:
                self._finish_trial(job)
        if not self._stopped:
            self._start_export()
            self._start_trial()
        return [] if self.news == before else [SendRoster()]

    def stop(self) -> None:
        """Ends the programs that run, and starts no more."""
        self._stopped = True
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
            self._plan.checkpoints = [step_of(path) for path in checkpoints(self._folder.inside / FOLDER)]
        except OSError as error:
            log.warning("checkpoints can't be listed: %s", error)

    def _start_export(self) -> None:
        """Starts the export of the next step's nets into a folder that is renamed when all are written."""
        if EXPORT in self._jobs or not self._plan.to_export:
            return
        step, weights = self._plan.to_export[0], self._train.export_weights
        run = self._folder.moved_to or self._folder.path  # path by which other programs find the folder
        beside = temporary_path(run / NETS / net_name(step, ""))
        try:
            make_folder(self._folder.inside / NETS)
            files.sweep(self._folder.inside / NETS)  # remove files of a supervisor that was killed
            (self._folder.inside / NETS / beside.name).mkdir(0o700)
            checkpoint = step_path(run / FOLDER, step)
            names = [(net_name(step, self._suffix, member), member) for member in self._members]
            commands = [export_command(checkpoint, beside / name, self._task, weights, m) for name, m in names]
        except OSError as error:
            self._give_up(step, str(error), has_room=False)
        except CheckpointError as error:
            self._give_up(step, str(error), has_room=True)
        else:
            self._run_next(_Job(EXPORT, step, commands, beside))

    def _start_trial(self) -> None:
        """Starts the user's command with the nets of the next step whose nets are exported."""
        step = self._plan.next_trial
        if ON_EXPORT in self._jobs or self._numbers is not None or step is None:
            return
        nets = (self._folder.moved_to or self._folder.path) / NETS
        paths = [nets / net_name(step, self._suffix, member) for member in self._members]
        self._run_next(_Job(ON_EXPORT, step, [_fill_in(self._train.on_export, step, path) for path in paths], nets))

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

    def _is_over(self, job: _Job, events: Mapping[object, int]) -> bool:
        """Handles the end of a job's program, and starts the job's next command. Returns whether all commands have
        ended."""
        if (program := job.program) is not None:
            program.cut_logs()
            if program.pidfd not in events:
                return False
            self._poller.unregister(program.pidfd)
            job.results.append(_Result(program.end(), program.output(), program.close()))
            self._run_next(job)
        return job.program is None

    def _finish_export(self, job: _Job) -> None:
        """Gives the nets of a step their final names, once all are on the disk."""
        beside = self._folder.inside / NETS / job.folder.name
        failed = next((result for result in job.results if result.code), None)
        try:
            if failed is None:
                files.publish(beside)
                self._record(job.step, Net.WRITTEN)
            else:
                reason = failed.last_line.removeprefix("pool: ").replace(f"{beside.name}/", "")
                has_room_now = failed.code != EXIT_RESOURCES and has_room(self._folder.inside)
                self._give_up(job.step, reason or ended(failed.code), has_room=has_room_now)
        except OSError as error:
            self._give_up(job.step, str(error), has_room=False)
        finally:
            files.remove_quietly(beside)

    def _finish_trial(self, job: _Job) -> None:
        """Keeps the numbers that the user's commands printed for the coordinator, if there are any."""
        for result in job.results:
            if result.code:
                reason = f"{ended(result.code)}{f': {result.last_line}' if result.last_line else ''}"
                self._say(f"train.on_export with the net of step {job.step}: {reason}; training goes on")
        numbers = [{} if result.code else parse_numbers(result.output) for result in job.results]
        if any(numbers):
            self._numbers = join_numbers(job.step, numbers)
        else:
            self._record(job.step, Net.DONE)

    def _give_up(self, step: int, reason: str, *, has_room: bool) -> None:
        """Records that the nets of a step are not written. For want of room they are left to a resumed run. `reason`:
        for the user."""
        line = f"nets of step {step} are not written: {reason}"
        if has_room:
            self._say(f"{line}; training goes on")
            self._record(step, Net.NOT_WRITTEN)
        else:
            self._say(f"{line}; training goes on, and a resumed run tries again: make room")
            self._plan.postponed.add(step)

    def _record(self, step: int, net: Net) -> None:
        self._plan.states[step] = net
        self._write_record()

    def _write_record(self) -> None:
        try:
            write_record(self._folder.inside, self._plan.states)
        except OSError as error:
            self._say(f"{NETS}/{RECORD} is not written: {error.strerror}; a resumed run does again what it lacks")


def _fill_in(command: Sequence[str], step: int, net: Path) -> list[str]:
    """Returns the user's command with the path and the step of a net filled in.

    Both are replaced in one pass, since a path may itself contain the text {step}.
    """
    values = {"{net}": str(net), "{step}": str(step)}
    pattern = "|".join(map(re.escape, values))
    return [re.sub(pattern, lambda match: values[match[0]], word) for word in command]

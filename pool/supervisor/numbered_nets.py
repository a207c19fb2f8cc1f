"""The numbered nets of a run, as the supervisor has them exported and tried by the user's command. Nothing of this can
end the run or make it wait, but at its end: for commands that are left, and for room on the disk (`pool.nets`)."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping

import zmq

from loader.exit_codes import EXIT_RESOURCES
from pool.checkpoint.folder import checkpoints, step_of
from pool.checkpoint.schedule import FINAL_SECONDS
from pool.checkpoint.state import FOLDER
from pool.errors import ResourceError
from pool.nets.export import Export
from pool.nets.plan import NetPlan, joined, numbers_of
from pool.nets.record import NETS, Net, add_to_record, net_name, read_record, write_record
from pool.protocol.messages import NetNews, NetNumbers, RunReport
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.program import Program, ended
from pool.supervisor.resources.run_folder import RunFolder
from pool.task.registry import task_module

log = logging.getLogger(__name__)

FOREVER = (1 << 63) - 1
RETRY_SECONDS = 30.0  # after an export that the disk did not take


class NumberedNets:
    def __init__(self, run: RunPlan, folder: RunFolder, poller: zmq.Poller, say: Callable[[str], object]) -> None:
        """`say`: to the run's user. Raises OSError."""
        self._config = run.config
        self._train = run.config.train
        self._folder = folder
        self._poller = poller
        self._say = say
        self._saved = run.saved
        self._members = len(run.planned.plans)
        self._suffix = getattr(task_module(run.config.task), "EXPORT_SUFFIX", "")
        self._exporter: Program | None = None
        self._command: Program | None = None
        self._step = -1  # that the command is run for
        self._numbers: list[Mapping[str, float]] = []  # what it has said of the step's nets so far
        self._unheard: NetNumbers | None = None  # the coordinator has not said yet that it has them
        self._stopped = False
        self._waiting: float | None = None  # time since which nothing else is left to do
        self._no_room = ""  # why the disk did not take the newest export
        self._retry = 0.0  # time of the next one
        self._unrecorded: list[tuple[int, Net]] = []  # in the order of the record
        self._is_record_late = False
        self._next_record = 0.0
        states = read_record(folder.inside) if self._train.export_every else {}
        known = {step: net for step, net in states.items() if step <= run.step}
        if known != states:  # steps that are done again; others may follow from them than before
            write_record(folder.inside, known)
        self._plan = NetPlan(self._train.export_every, known, has_command=bool(self._train.on_export))
        self._look()

    @property
    def news(self) -> NetNews:
        """The state of the nets, for the coordinator."""
        if self._stopped or not self._train.export_every:
            return NetNews((), FOREVER)
        left = self._plan.unsettled
        settled = left[0] - 1 if left else max(0, self._saved)
        return NetNews(() if self._unheard is None else (self._unheard,), settled)

    @property
    def pids(self) -> set[int]:
        return {program.pid for program in (self._exporter, self._command) if program is not None}

    def report(self, report: RunReport) -> None:
        """Hears a report of the coordinator."""
        if report.checkpoint != self._saved:
            self._saved = report.checkpoint
            self._look()
        if self._unheard is not None and report.noted >= self._unheard.step:
            self._unheard = None
            self._settle()
        if report.waits_for_nets and self._waiting is None and (left := self._plan.unsettled):
            self._waiting = time.monotonic()
            what = f"{len(left)} net{'' if len(left) == 1 else 's'} to be exported"
            what += " and tried" if self._train.on_export else ""
            self._say(f"all steps are done; waiting for {what} (Ctrl-C: end now, --resume does the rest)")

    def hear(self, events: Mapping[object, int]) -> bool:
        """Sees by `events` of the poller which programs have ended; begins what is next. Returns whether `news` are
        others."""
        before = self.news
        for program in (self._exporter, self._command):
            if program is not None:
                program.cut_logs()
        if self._exporter is not None and self._exporter.pidfd in events:
            self._exported(self._exporter)
        if self._command is not None and self._command.pidfd in events:
            self._tried(self._command)
        self._begin()
        if self._unrecorded and time.monotonic() >= self._next_record:
            self._record()
        return self.news != before

    def stop(self) -> None:
        """Ends what is running, and begins nothing more."""
        self._stopped = True
        self._plan.stop()
        for program in (self._exporter, self._command):
            if program is not None:
                self._poller.unregister(program.pidfd)
                program.end()
                program.close()
        self._exporter = self._command = None

    def _look(self) -> None:
        """Looks which checkpoints there are."""
        if not self._train.export_every:
            return
        try:
            saved = checkpoints(self._folder.inside / FOLDER)
        except OSError as error:
            log.warning("checkpoints can't be listed: %s", error)
            return
        self._plan.saved([step_of(path) for path in saved])

    def _begin(self) -> None:
        if time.monotonic() >= self._retry and (step := self._plan.next_export()) is not None:
            weights = self._train.export_weights or ""
            export = Export(self._folder.inside, step, self._suffix, self._config.task, self._members, weights)
            self._exporter = self._started("pool.nets.export", export.arguments(), "export")
            if self._exporter is None:
                self._note(self._plan.exported(Net.NOT_WRITTEN), Net.NOT_WRITTEN)
        if self._command is None and self._unheard is None and (step := self._plan.next_command()) is not None:
            self._step, self._numbers = step, []
            self._try_next()

    def _exported(self, program: Program) -> None:
        self._poller.unregister(program.pidfd)
        self._exporter = None
        code, last = program.end(), program.close()
        if code == EXIT_RESOURCES:
            self._postpone(last or "no room")  # not even for the line that says more
            return
        self._no_room = ""
        outcome = Net.NOT_WRITTEN if code else Net.WRITTEN
        step = self._plan.exported(outcome)
        if code:
            self._say(f"nets of step {step} are not written: {last or ended(code)}; training goes on")
        self._note(step, outcome)

    def _postpone(self, why: str) -> None:
        """The disk did not take the nets: they are exported once it does. Raises ResourceError if nothing but that has
        been left to do for too long."""
        step, now = self._plan.postponed(), time.monotonic()
        self._retry = now + RETRY_SECONDS
        account = f"nets of step {step} are not written: {why}"
        if self._waiting is not None and now - self._waiting >= FINAL_SECONDS:
            minutes = round(FINAL_SECONDS / 60)
            raise ResourceError(f"{account}; tried for {minutes} minutes; --resume does it once there is room")
        if why != self._no_room:
            self._no_room = why
            self._say(f"{account}; tried again every {RETRY_SECONDS:.0f} s: make room")

    def _try_next(self) -> None:
        """Runs the command with the next of the step's nets."""
        member = len(self._numbers)
        name = net_name(self._step, self._suffix, member if self._members > 1 else None)
        net = (self._folder.moved_to or self._folder.path) / NETS / name
        values = {"{net}": str(net), "{step}": str(self._step)}
        command = [_replaced(word, values) for word in self._train.on_export]
        self._command = self._started("pool.process.become", command, "on_export")
        if self._command is None:
            self._tell({})

    def _tried(self, program: Program) -> None:
        self._poller.unregister(program.pidfd)
        self._command = None
        code, output, last = program.end(), program.output(), program.close()
        if code:
            what = f"{ended(code)}{f': {last}' if last else ''}"
            self._say(f"train.on_export with the net of step {self._step}: {what}; training goes on")
        self._tell({} if code else numbers_of(output))

    def _tell(self, numbers: Mapping[str, float]) -> None:
        """Takes what the command has said of a net; after a step's last net, all goes to the coordinator."""
        self._numbers.append(numbers)
        if len(self._numbers) < self._members:
            self._try_next()
        elif any(self._numbers):
            self._unheard = joined(self._step, self._numbers)
        else:
            self._settle()

    def _settle(self) -> None:
        self._note(self._plan.done(), Net.DONE)

    def _started(self, module: str, arguments: list[str], name: str) -> Program | None:
        logs = self._folder.logs
        try:
            program = Program(
                module,
                arguments,
                output=logs / f"{name}.out.log",
                errors=logs / f"{name}.log",
                folder=self._folder.fd,
            )
        except OSError as error:
            self._say(f"{name}: no process for it: {error.strerror}; training goes on")
            return None
        self._poller.register(program.pidfd, zmq.POLLIN)
        return program

    def _note(self, step: int, net: Net) -> None:
        """Records how far a step is; what can't be recorded now is with a later step, or after a while."""
        self._unrecorded.append((step, net))
        self._record()

    def _record(self) -> None:
        while self._unrecorded:
            step, net = self._unrecorded[0]
            try:
                add_to_record(self._folder.inside, step, net)
            except OSError as error:
                self._next_record = time.monotonic() + RETRY_SECONDS
                if not self._is_record_late:
                    self._is_record_late = True
                    self._say(
                        f"{NETS}/: how far step {step} is can't be recorded: {error.strerror}; tried again every "
                        f"{RETRY_SECONDS:.0f} s, and a resume does again what is not on record"
                    )
                return
            self._is_record_late = False
            del self._unrecorded[0]


def _replaced(word: str, values: Mapping[str, str]) -> str:
    """Replaces in one pass: what is put in is not looked at again."""
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match[0]], word)

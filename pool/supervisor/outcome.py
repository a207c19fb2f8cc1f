"""Reports the end of a run to the user's program `train.on_end`, which runs once when no process of the run is left.

Whatever that program does, the run's exit code stays. A line tells the user if the program fails.
"""

from __future__ import annotations

import json
import math
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from loader.exit_codes import EXIT_DONE
from pool.checkpoint.folder import step_path
from pool.checkpoint.state import FOLDER, LAST
from pool.config.tree import Config
from pool.protocol.messages import RunReport
from pool.supervisor.processes.program import Program, describe_exit
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.signals import StopSignals
from pool.telemetry.status import was_stopped

TIMEOUT_SECONDS = 60.0  # longest time that the program may take
_POLL_SECONDS = 0.5  # between two checks of the program's logs


@dataclass(frozen=True)
class Outcome:
    """Describes the end of a run, as the user's program gets it. Paths are absolute. None: the item does not exist."""

    outcome: str  # finished, stopped (by a signal, or since another machine was) or failed
    exit_code: int  # exit code of `pool train`
    reason: str | None  # why the run failed, as printed on stderr
    run: str  # the run folder
    step: int  # steps done
    steps: int  # number of steps of the whole run
    loss: float | None  # loss of the newest step, the median over members
    checkpoint: str | None  # path of the newest checkpoint
    best_checkpoint: str | None  # path of the checkpoint that validated best
    best_metric: str | None  # name of the number by which it is the best
    best_value: float | None
    resume: str | None  # command that resumes the run, if it is on one machine

    def to_json(self) -> bytes:
        """Encodes the outcome as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


def collect_outcome(
    config: Config,
    folder: RunFolder,
    report: RunReport | None,
    code: int,
    reason: str,
    resume_command: Callable[[str], str] | None,
) -> Outcome:
    """Collects the outcome of a run.

    `report`: the run's last report; `code`: its exit code; `reason`: why it failed, else empty; `resume_command`:
    returns the command that resumes a run in a folder.
    """
    run = (folder.moved_to or folder.path).absolute()
    saved_step = folder.linked_step(LAST)
    has_best = report is not None and report.best_step >= 0
    return Outcome(
        outcome=_name_ending(code, reason),
        exit_code=code,
        reason=reason or None,
        run=str(run),
        step=max(saved_step, 0) if report is None else report.step,
        steps=config.train.steps,
        loss=None if report is None else _finite_or_none(report.loss),
        checkpoint=None if saved_step < 0 else str(step_path(run / FOLDER, saved_step)),
        best_checkpoint=str(step_path(run / FOLDER, report.best_step)) if report is not None and has_best else None,
        best_metric=report.best_metric if report is not None and has_best else None,
        best_value=_finite_or_none(report.best_value) if report is not None and has_best else None,
        resume=None if code == EXIT_DONE or resume_command is None else resume_command(str(run)),
    )


def _name_ending(code: int, reason: str) -> str:
    """Returns `finished`, `stopped` or `failed`, by the run's exit code and the reason of a failure."""
    if code == EXIT_DONE:
        return "finished"
    return "stopped" if was_stopped(code, reason) else "failed"


def run_end_program(
    command: Sequence[str],
    outcome: Outcome,
    folder: RunFolder,
    signals: StopSignals,
    print_line: Callable[[str], object],
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Runs the user's program with the outcome on its standard input, and waits until it ends.

    The program is killed after `timeout` seconds, or at once when another signal to stop comes. `print_line`: shows a
    line to the user.
    """
    num_signals = signals.count
    try:
        program = Program(
            "pool.process.become",
            command,
            output=folder.logs / "on_end.out.log",
            errors=folder.logs / "on_end.log",
            standard_input=outcome.to_json(),
        )
    except OSError as error:
        print_line(f"train.on_end: no process for it: {error.strerror}")
        return
    deadline = time.monotonic() + timeout
    has_ended = False
    while not has_ended and signals.count == num_signals and time.monotonic() < deadline:
        readable, _, _ = select.select([program.pidfd, signals.fileno()], [], [], _POLL_SECONDS)
        signals.drain()
        program.cut_logs()
        has_ended = program.pidfd in readable
    code = program.end()
    last_error = program.close()
    if not has_ended:
        reason = f"it has not ended within {timeout:.0f} s" if signals.count == num_signals else "a signal came"
        print_line(f"train.on_end: {reason}: killed")
    elif code:
        details = f": {last_error}" if last_error else ""
        print_line(f"train.on_end: {describe_exit(code)}{details}")


def _finite_or_none(value: float) -> float | None:
    """Returns a number, or None if it is not finite, which JSON can't express."""
    return value if math.isfinite(value) else None

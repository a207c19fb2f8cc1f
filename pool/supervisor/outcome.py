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

TIMEOUT_SECONDS = 60.0  # seconds that the program may take
_LOOK = 0.5  # seconds between two looks at its logs


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
    again: Callable[[str], str] | None,
) -> Outcome:
    """Collects the outcome of a run.

    `report`: the run's last report; `code`: its exit code; `reason`: why it failed, else empty; `again`: makes the
    command that resumes a run in a folder.
    """
    run = (folder.moved_to or folder.path).absolute()
    saved = folder.linked_step(LAST)
    best = -1 if report is None else report.best_step
    return Outcome(
        outcome="finished" if code == EXIT_DONE else "stopped" if was_stopped(code, reason) else "failed",
        exit_code=code,
        reason=reason or None,
        run=str(run),
        step=max(saved, 0) if report is None else report.step,
        steps=config.train.steps,
        loss=None if report is None else _number(report.loss),
        checkpoint=None if saved < 0 else str(step_path(run / FOLDER, saved)),
        best_checkpoint=None if best < 0 else str(step_path(run / FOLDER, best)),
        best_metric=None if best < 0 or report is None else report.best_metric,
        best_value=None if best < 0 or report is None else _number(report.best_value),
        resume=None if code == EXIT_DONE or again is None else again(str(run)),
    )


def run_end_program(
    command: Sequence[str],
    outcome: Outcome,
    folder: RunFolder,
    signals: StopSignals,
    say: Callable[[str], object],
    longest: float = TIMEOUT_SECONDS,
) -> None:
    """Runs the user's program with the outcome on its standard input, and waits until it ends.

    The program is killed after `longest` seconds, or at once when another signal to stop comes. `say`: shows a line to
    the user.
    """
    log, before = folder.logs / "on_end.log", signals.count
    try:
        program = Program(
            "pool.process.become",
            command,
            output=folder.logs / "on_end.out.log",
            errors=log,
            standard_input=outcome.to_json(),
        )
    except OSError as error:
        say(f"train.on_end: no process for it: {error.strerror}")
        return
    deadline = time.monotonic() + longest
    has_ended = False
    while not has_ended and signals.count == before and time.monotonic() < deadline:
        readable, _, _ = select.select([program.pidfd, signals.fileno()], [], [], _LOOK)
        signals.drain()
        program.cut_logs()
        has_ended = program.pidfd in readable
    code = program.end()
    last = program.close()
    if not has_ended:
        why = f"it has not ended within {longest:.0f} s" if signals.count == before else "a signal came"
        say(f"train.on_end: {why}: killed")
    elif code:
        say(f"train.on_end: {describe_exit(code)}{f': {last}' if last else ''}")


def _number(value: float) -> float | None:
    """Returns a number, or None if it is not finite, which JSON can't express."""
    return value if math.isfinite(value) else None

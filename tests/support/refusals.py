"""Runs that are refused before they have processes, in this process: all that `pool train` does until then.

The planner is called, not forked. What a user sees of a refusal, one line and an exit code, is tested by real runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pool.config.load import load_config
from pool.errors import PoolError
from pool.planner import planner
from pool.process.start import PlannerStart, decode_start
from pool.protocol.identity import PLANNER, Peer
from pool.supervisor import train
from pool.supervisor.prepare import planner_request, preparation
from pool.supervisor.prepare.run_plan import RunPlan
from tests.support.runs import command


class _NoForkServer:
    def end(self) -> None:
        pass


def refused(dir: Path, settings: Mapping[str, Any], *, resume: bool = False) -> PoolError:
    """The error that a run in `dir` ends with; the test fails if the run would begin."""
    config = Path(command(dir, settings)[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "ask_planner", _plan)
        patch.setattr(train, "Supervisor", _begins)
        patch.setattr(train, "log_to_folder", lambda logs: None)  # noqa: ARG005
        patch.setattr(logging, "raiseExceptions", logging.raiseExceptions)  # to be put back
        with pytest.raises(PoolError) as error:
            train.train(load_config(config), resume=resume)
    return error.value


def _plan(run: RunPlan, *_: object) -> tuple[RunPlan, _NoForkServer]:
    start = decode_start(run.planner_start(Peer(PLANNER)).to_json(), run.run_dir)
    assert isinstance(start, PlannerStart)
    answer = planner.run(start)
    return planner_request.add_answer(run, answer), _NoForkServer()


def _begins(*_: object) -> None:
    pytest.fail("the run is not refused")

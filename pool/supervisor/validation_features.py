"""The lines at a run's end about features of its validation data that were never trained."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from loader.rows.settings import RowsConfig
from pool.analysis.validation_features import ValidationFeatures
from pool.checkpoint.folder import step_path
from pool.checkpoint.state import FOLDER, LAST
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.program import Program
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.signals import StopSignals

log = logging.getLogger(__name__)
_LONGEST = 60.0  # seconds


def untrained_features(plan: RunPlan, folder: RunFolder, signals: StopSignals) -> Sequence[str]:
    """Counts them for rows whose validation files are others than those of training. What hinders that is in the log
    alone: the run is done."""
    config, step = plan.config, folder.linked_step(LAST)
    if not isinstance(config.data.settings, RowsConfig) or not config.data.validation or step < 0:
        return ()
    if not config.validate_every:
        return ()
    asked = ValidationFeatures(
        checkpoint=str(step_path((folder.moved_to or folder.path) / FOLDER, step)),
        task=config.task,
        format=config.data.format,
        files=[str(file.path) for file in plan.validation_files],
        batches=plan.validation.batches,
    )
    name = "validation-features"
    try:
        program = Program(
            "pool.analysis.validation_features",
            [],
            output=folder.logs / f"{name}.out.log",
            errors=folder.logs / f"{name}.log",
            standard_input=asked.to_json(),
        )
    except OSError as error:
        log.warning("%s: no process for it: %s", name, error.strerror)
        return ()
    has_ended = program.wait(signals, _LONGEST)
    code, output = program.end(), program.output()
    last = program.close()
    if not has_ended or code:
        log.warning("%s: %s", name, last or "it has not ended")
        return ()
    return output.splitlines()

"""Records a digest of a run's weights after its first steps, by which a later build can tell whether it computes the
same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from pool.checkpoint.store import tensor_bytes
from pool.run_folder.files import sweep
from pool.run_folder.first_steps import FILE, MOST_BYTES, STEPS, FirstSteps, digest_of, write_first_steps

log = logging.getLogger(__name__)


class FirstStepsRecord:
    """Writes first-steps.json when the run's first steps are done."""

    def __init__(
        self, run_dir: Path, config: Mapping[str, Any], weights: Callable[[], Mapping[str, torch.Tensor]]
    ) -> None:
        """Makes the recorder of a run's first steps. `config`: the run's. `weights`: returns the tensors of the newest
        version by name; it is called between two steps."""
        sweep(run_dir, FILE)  # of a predecessor that was killed
        self._run_dir = run_dir
        self._config = config
        self._weights = weights

    def on_commit(self, version: int) -> None:
        """Writes first-steps.json if `version` is the one after the first steps. Writes nothing for very large models.
        A failure to write is logged, and training goes on."""
        if version != STEPS:
            return
        weights = self._weights()
        if sum(tensor.nbytes for tensor in weights.values()) > MOST_BYTES:
            return
        digest = digest_of({each.name: each.data for each in tensor_bytes(weights)})
        try:
            write_first_steps(self._run_dir, FirstSteps(version, digest, self._config))
        except OSError as error:
            log.warning("first-steps.json can't be written: %s", error.strerror)

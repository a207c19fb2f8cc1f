"""From a checkpoint to the file that the network's user reads."""

from __future__ import annotations

from pathlib import Path

import torch

from pool.buckets.tensors import carried, replace_tensors, trained
from pool.checkpoint.state import STATE
from pool.checkpoint.store import Checkpoint, load
from pool.config import Config, parse_config
from pool.errors import CheckpointError, PoolError
from pool.failure import told
from pool.tasks.making import make_task


def export_checkpoint(checkpoint: Path, output: Path, description: str) -> None:
    """Raises CheckpointError for a bad checkpoint, PoolError for weights that the format can't hold."""
    if not (checkpoint / STATE).exists():
        raise CheckpointError(f"{checkpoint}: is no checkpoint folder: it has no {STATE}")
    state = load(checkpoint)
    config = parse_config(state.config, str(checkpoint))
    try:
        _export(config, state, checkpoint, output, description)
    except PoolError:
        raise
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}") from None
    except ValueError as error:
        raise PoolError(f"{output}: not written: {error}") from None
    except Exception as error:  # the task is the user's code
        raise PoolError(f"{output}: not written: {told(error)}") from None


def _export(config: Config, state: Checkpoint, checkpoint: Path, output: Path, description: str) -> None:
    task = make_task(config.task, config.model, config.loss)
    with torch.device("meta"):
        model = task.build_model()
    names = [name for name, _ in (*trained(model), *carried(model))]
    if missing := [name for name in names if name not in state.weights]:
        raise CheckpointError(f"{checkpoint}: has no tensor {missing[0]}")
    replace_tensors(model, [(name, state.weights[name]) for name in names])
    task.export(model, output, description)

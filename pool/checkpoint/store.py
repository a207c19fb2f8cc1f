"""Writes and reads checkpoints with their tensors: beside and renamed, so that a whole one or none is there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pool.checkpoint.state import FORMAT, LAST, OPTIMIZER, STATE, WEIGHTS, SavedState, read_state
from pool.errors import CheckpointError
from pool.protocol.messages import CursorState


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on from the end of a step."""

    step: int  # steps done; version of the weights
    cursor: CursorState  # where the next step's first batch begins
    config: Mapping[str, Any]
    weights: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    optimizer_plain: Mapping[str, Any]


def save(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Writes checkpoints/step-N, points `last` to it, removes all but the newest `keep`. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for leftover in folder.glob(".*.tmp"):
        shutil.rmtree(leftover)
    target = folder / f"step-{checkpoint.step:09d}"
    beside = folder / f".{target.name}.tmp"
    beside.mkdir(mode=0o700)
    weights = {name: tensor.detach().contiguous() for name, tensor in checkpoint.weights.items()}
    optimizer = {name: tensor.detach().contiguous() for name, tensor in checkpoint.optimizer.items()}
    save_file(weights, beside / WEIGHTS)
    save_file(optimizer, beside / OPTIMIZER)
    state = SavedState(
        format=FORMAT,
        step=checkpoint.step,
        cursor=checkpoint.cursor,
        config=checkpoint.config,
        optimizer=checkpoint.optimizer_plain,
        sha256={WEIGHTS: _hashes(weights), OPTIMIZER: _hashes(optimizer)},
    )
    (beside / STATE).write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    for path in (beside / WEIGHTS, beside / OPTIMIZER, beside / STATE, beside):
        _fsync(path)
    if target.exists():  # a resumed run reaches the step again
        shutil.rmtree(target)
    beside.rename(target)
    _point_last(folder, target)
    _fsync(folder)
    for old in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(old)
    return target


def load(path: Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder. Raises CheckpointError naming the file and the tensor."""
    path = path.resolve()
    state = read_state(path)
    tensors = {}
    for name in (WEIGHTS, OPTIMIZER):
        try:
            tensors[name] = load_file(path / name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path / name}: {error}") from None
        expected = state.sha256[name]
        if expected.keys() != tensors[name].keys():
            raise CheckpointError(f"{path / name}: its tensors are not those that {STATE} lists")
        for tensor, digest in _hashes(tensors[name]).items():
            if digest != expected[tensor]:
                raise CheckpointError(f"{path / name}: tensor {tensor} is damaged: its SHA-256 is not that in {STATE}")
    return Checkpoint(
        step=state.step,
        cursor=state.cursor,
        config=state.config,
        weights=tensors[WEIGHTS],
        optimizer=tensors[OPTIMIZER],
        optimizer_plain=state.optimizer,
    )


def _hashes(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    return {
        name: hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().data).hexdigest()
        for name, tensor in tensors.items()
    }


def _point_last(folder: Path, target: Path) -> None:
    beside = folder / f".{LAST}.link"
    beside.unlink(missing_ok=True)
    beside.symlink_to(target.name)
    beside.rename(folder / LAST)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Checkpoints: a folder each, written beside and renamed, so that a whole one or none is there.

    checkpoints/step-000000100/weights.safetensors    the model: parameters and buffers by name
                               optimizer.safetensors  the optimizer's tensors, `parameter/key`
                               state.json             step, cursor, config, the rest of the state, SHA-256 of each tensor
    checkpoints/last                                  symlink to the newest

No pickle (I7). What is here is all that only the coordinator knows (I9).
"""

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

from pool.errors import CheckpointError
from pool.protocol.messages import CursorState

FORMAT = 1
FOLDER = "checkpoints"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
LAST = "last"


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
    state = {
        "format": FORMAT,
        "step": checkpoint.step,
        "cursor": asdict(checkpoint.cursor),
        "config": checkpoint.config,
        "optimizer": checkpoint.optimizer_plain,
        "sha256": {WEIGHTS: _hashes(weights), OPTIMIZER: _hashes(optimizer)},
    }
    (beside / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
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


def read_state(path: Path) -> dict[str, Any]:
    """The plain part, free of tensors. Raises CheckpointError."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path / STATE}: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path / STATE}: not a checkpoint of format {FORMAT}")
    return state


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
        expected = state["sha256"][name]
        if expected.keys() != tensors[name].keys():
            raise CheckpointError(f"{path / name}: its tensors are not those that {STATE} lists")
        for tensor, digest in _hashes(tensors[name]).items():
            if digest != expected[tensor]:
                raise CheckpointError(f"{path / name}: tensor {tensor} is damaged: its SHA-256 is not that in {STATE}")
    return Checkpoint(
        step=state["step"],
        cursor=CursorState(**state["cursor"]),
        config=state["config"],
        weights=tensors[WEIGHTS],
        optimizer=tensors[OPTIMIZER],
        optimizer_plain=state["optimizer"],
    )


def _hashes(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    return {
        name: hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy()).hexdigest()
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

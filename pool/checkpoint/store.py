"""Writes and reads checkpoints with their tensors: beside, fsynced, read back, renamed: a whole one or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from pool.checkpoint import files, folder, tensor_file
from pool.checkpoint.state import CHUNK_SUMS, OPTIMIZER, STATE, WEIGHTS, SavedState, encode_state, verify
from pool.checkpoint.tensor_file import TensorBytes
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.protocol.messages import CursorState
from pool.run_dir import make_folder

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on from the end of a step."""

    step: int  # steps done; version of the weights
    cursor: CursorState  # where the next step's first batch begins
    config: Mapping[str, Any]
    fingerprint: Mapping[str, str]
    data: Sequence[Sequence[str | int]]  # as SavedState.data
    weights: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    optimizer_plain: Mapping[str, Any]
    validation: Sequence[Sequence[str | int]] = ()  # as SavedState.validation
    chunk_sums: Mapping[str, npt.NDArray[np.uint64]] = field(default_factory=dict)  # [chunks] words of each stream


def save(where: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Writes step-N in `where`, points `last` to it, then removes all but the newest `keep`.

    Whatever fails, the checkpoints that were there stay. Raises OSError, or CheckpointError if what was
    written can't be read back or has no form in the files.
    """
    make_folder(where)
    target = folder.step_path(where, checkpoint.step)
    if not _is_there(target):
        beside = files.temporary(target)
        try:
            beside.mkdir(mode=0o700)
            _write(beside, checkpoint)
            verify(beside)
            crash_point("coordinator.checkpoint_verified")
            beside.rename(target)
            crash_point("coordinator.checkpoint_renamed")
        except BaseException:
            files.remove_quietly(beside)
            raise
    files.sync_folder(where)
    crash_point("coordinator.checkpoint_synced")
    folder.point_last(where, target)
    crash_point("coordinator.checkpoint_linked")
    folder.remove_old(where, keep)
    return target


def load(path: Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder. Raises CheckpointError naming the file, tensor and byte range."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    try:
        state = verify(path)
        tensors = {name: load_file(path / name) for name in (WEIGHTS, OPTIMIZER)}
    except (OSError, SafetensorError) as error:
        where = error.filename if isinstance(error, OSError) else None
        raise CheckpointError(f"{where or path}: {getattr(error, 'strerror', None) or error}") from None
    return Checkpoint(
        step=state.step,
        cursor=state.cursor,
        config=state.config,
        fingerprint=state.fingerprint,
        data=state.data,
        weights=tensors[WEIGHTS],
        optimizer=tensors[OPTIMIZER],
        optimizer_plain=state.optimizer,
        validation=state.validation,
    )


def _write(beside: Path, checkpoint: Checkpoint) -> None:
    crash_point("coordinator.checkpoint_begun")
    sums = {
        WEIGHTS: tensor_file.write(beside / WEIGHTS, tensor_bytes(checkpoint.weights)),
        OPTIMIZER: tensor_file.write(beside / OPTIMIZER, tensor_bytes(checkpoint.optimizer)),
    }
    if checkpoint.chunk_sums:
        tables = {name: torch.from_numpy(words) for name, words in checkpoint.chunk_sums.items()}
        sums[CHUNK_SUMS] = tensor_file.write(beside / CHUNK_SUMS, tensor_bytes(tables))
    state = SavedState(
        step=checkpoint.step,
        cursor=checkpoint.cursor,
        config=checkpoint.config,
        fingerprint=checkpoint.fingerprint,
        data=checkpoint.data,
        optimizer=checkpoint.optimizer_plain,
        files=sums,
        validation=checkpoint.validation,
    )
    try:
        data = encode_state(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{STATE}: optimizer or schedule keep what is no plain data: {error}") from None
    crash_point("coordinator.checkpoint_tensors_written")
    files.write_new(beside / STATE, [data])
    crash_point("coordinator.checkpoint_written")
    files.sync_folder(beside)


def tensor_bytes(tensors: Mapping[str, torch.Tensor]) -> list[TensorBytes]:
    result = []
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise CheckpointError(f"tensor {name}: {tensor.dtype} has no form in a safetensors file")
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        result.append(TensorBytes(name, DTYPES[tensor.dtype], tensor.element_size(), tuple(tensor.shape), data))
    return result


def _is_there(target: Path) -> bool:
    """An attempt may fail after the rename, and a coordinator's successor reaches a step again: the same bits (I9)."""
    if not target.exists():
        return False
    try:
        verify(target)
    except CheckpointError:
        folder.set_aside(target)
        return False
    return True

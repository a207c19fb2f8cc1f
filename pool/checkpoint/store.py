"""Writes and reads checkpoints with their tensors.

A checkpoint is written to a temporary folder, synced to disk, read back, and then renamed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from pool.checkpoint import folder, tensor_file
from pool.checkpoint.compare_tensors import TensorSpecs, format_spec
from pool.checkpoint.state import (
    AVERAGE,
    BEST,
    CHUNK_SUMS,
    LAST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    RunFacts,
    RunState,
    SavedState,
    encode_state,
    fields_of,
    read_state,
    verify,
    verify_tensors,
    without_tied_names,
)
from pool.checkpoint.tensor_file import Header, TensorBytes
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.run_folder import files
from pool.run_folder.strict_json import value_at

DTYPES: dict[torch.dtype, str] = {getattr(torch, name): word for word, (name, _) in tensor_file.DTYPES.items()}


@dataclass(frozen=True, kw_only=True)
class Checkpoint(RunState, RunFacts):
    """Everything that a run needs to continue after a step: its state, facts and tensors."""

    weights: Mapping[str, torch.Tensor]
    optimizer_tensors: Mapping[str, torch.Tensor]
    average: Mapping[str, torch.Tensor] = field(default_factory=dict)  # named as `weights`; empty: none yet
    chunk_sums: Mapping[str, npt.NDArray[np.uint64]] = field(default_factory=dict)  # [chunks] of each stream
    description: str = ""  # see SavedState
    # optimizer tensors whose rows lie on several devices, as parts in row order; `optimizer_tensors` has their shapes
    divided: Mapping[str, Sequence[torch.Tensor]] = field(default_factory=dict)


def save_checkpoint(where: Path, checkpoint: Checkpoint) -> Path:
    """Writes a checkpoint as step-N into the folder `where`, and links it as `last`. Returns its path.

    It is linked as `best`, too, if its validation is the best so far. Checkpoints that exist already stay, whatever
    fails. Raises OSError. Raises CheckpointError if the written files can't be read back, or the state can't be
    stored in them.
    """
    target = folder.step_path(where, checkpoint.step)
    if not _is_there(target):
        folder.write_checkpoint(where, checkpoint.step, lambda beside: _write(beside, checkpoint))
    files.sync_folder(where)
    crash_point("coordinator.checkpoint_synced")
    best = checkpoint.validations.best
    folder.set_link(where, LAST, target)
    if best is not None and best.step == checkpoint.step:
        folder.set_link(where, BEST, target)
    crash_point("coordinator.checkpoint_linked")
    return target


def load_checkpoint(path: Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder with all its tensors.

    Raises CheckpointError, of damage with the file, tensor and byte range.
    """
    path = path.parent / path.readlink() if path.is_symlink() else path
    with _naming(path):
        state = verify(path)
        files = [name for name in (WEIGHTS, OPTIMIZER, AVERAGE) if name in state.files]
        tensors = {name: without_tied_names(load_file(path / name), state) for name in files}
    return Checkpoint(
        **fields_of(RunFacts, state),
        **fields_of(RunState, state),
        weights=tensors[WEIGHTS],
        optimizer_tensors=tensors[OPTIMIZER],
        average=tensors.get(AVERAGE, {}),
    )


@dataclass(frozen=True)
class Weights:
    """The weights or averaged weights of a checkpoint, and the state of its run."""

    state: SavedState
    header: Header
    tensors: Mapping[str, torch.Tensor]


def load_weights(path: Path, *, averaged: bool = False) -> Weights:
    """Reads and verifies the weights of a checkpoint, but not the optimizer's state.

    `averaged`: reads the averaged weights instead. Raises CheckpointError, also if the checkpoint has no average.
    """
    name = AVERAGE if averaged else WEIGHTS
    with _naming(path):
        state = read_state(path)
        if name not in state.files:
            raise CheckpointError(f"{path}: has no averaged weights{_why_no_average(state)}")
        header = verify_tensors(path, state, name)
        return Weights(state, header, without_tied_names(load_file(path / name), state))


def _why_no_average(state: SavedState) -> str:
    """Explains, for an error message, why a checkpoint has no averaged weights."""
    if value_at(state.config, "train.average.kind") is None:
        return ": its run has no train.average.kind"
    start = value_at(state.config, "train.average.start")
    return (
        f": it is of step {state.step}, and the first that its run averages come later (train.average.start = {start})"
    )


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns errors of reading into CheckpointError with the path of the file."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        where = error.filename if isinstance(error, OSError) else None
        raise CheckpointError(f"{where or path}: {getattr(error, 'strerror', None) or error}") from None


def _write(beside: Path, checkpoint: Checkpoint) -> None:
    """Writes all files of a checkpoint into the folder `beside`, state.json last. Raises OSError, CheckpointError."""
    crash_point("coordinator.checkpoint_begun")
    sums = {
        WEIGHTS: tensor_file.write(beside / WEIGHTS, tensor_bytes(_under_all_names(checkpoint.weights, checkpoint))),
        OPTIMIZER: tensor_file.write(beside / OPTIMIZER, tensor_bytes(checkpoint.optimizer_tensors)),
    }
    if checkpoint.average:
        average = tensor_bytes(_under_all_names(checkpoint.average, checkpoint))
        sums[AVERAGE] = tensor_file.write(beside / AVERAGE, average)
    if checkpoint.chunk_sums:
        tables = {name: torch.from_numpy(words) for name, words in checkpoint.chunk_sums.items()}
        sums[CHUNK_SUMS] = tensor_file.write(beside / CHUNK_SUMS, tensor_bytes(tables))
    state = SavedState(
        **fields_of(RunFacts, checkpoint),
        **fields_of(RunState, checkpoint),
        files=sums,
        description=checkpoint.description,
    )
    try:
        data = encode_state(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{STATE}: optimizer or schedule keep what is no plain data: {error}") from None
    crash_point("coordinator.checkpoint_tensors_written")
    files.write_new(beside / STATE, [data])
    crash_point("coordinator.checkpoint_written")
    files.sync_folder(beside)


def _under_all_names(tensors: Mapping[str, torch.Tensor], facts: RunFacts) -> dict[str, torch.Tensor]:
    """Returns the tensors with their further names added (tied weights), as a model's load_state_dict requires."""
    return {**tensors, **{name: tensors[first] for name, first in facts.tied.items() if first in tensors}}


def tensor_bytes(tensors: Mapping[str, torch.Tensor]) -> list[TensorBytes]:
    """Returns the bytes of each tensor in C order, copied to the CPU if necessary.

    Raises CheckpointError if safetensors has no such dtype.
    """
    result = []
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise CheckpointError(f"tensor {name}: {tensor.dtype} has no form in a safetensors file")
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        result.append(TensorBytes(name, DTYPES[tensor.dtype], tensor.element_size(), tuple(tensor.shape), data))
    return result


def tensor_specs(tensors: Mapping[str, torch.Tensor]) -> TensorSpecs:
    """Returns dtype and shape of each tensor as text, by name."""
    return {
        name: format_spec(str(tensor.dtype).removeprefix("torch."), tensor.shape) for name, tensor in tensors.items()
    }


def _is_there(target: Path) -> bool:
    """Returns whether a checkpoint exists and is undamaged. A damaged one is renamed.

    It may exist because an earlier attempt failed after the rename, or because a restarted coordinator repeats the
    step. The bits are the same then (invariant I9).
    """
    if not target.exists():
        return False
    try:
        verify(target)
    except CheckpointError:
        folder.rename_damaged(target)
        return False
    return True

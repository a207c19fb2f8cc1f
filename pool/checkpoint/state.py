"""The plain part of a checkpoint, state.json. Free of torch: the supervisor reads where a run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pool.errors import CheckpointError
from pool.protocol.messages import CursorState

FORMAT = 1
FOLDER = "checkpoints"
LAST = "last"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"


@dataclass(frozen=True)
class SavedState:
    """What state.json holds."""

    format: int
    step: int  # steps done; version of the weights
    cursor: CursorState  # where the next step's first batch begins
    config: Mapping[str, Any]  # of the run that wrote it, resolved
    optimizer: Mapping[str, Any]  # numbers of optimizer and schedule
    sha256: Mapping[str, Mapping[str, str]]  # file -> tensor -> SHA-256 of its bytes


def read_state(checkpoint: Path) -> SavedState:
    """Raises CheckpointError that names the file."""
    path = checkpoint / STATE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise CheckpointError(f"{path}: format {data['format']!r:.20}; this version reads format {FORMAT}")
        cursor = CursorState(**data["cursor"])
        return SavedState(**{**{field.name: data[field.name] for field in fields(SavedState)}, "cursor": cursor})
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: is damaged or no checkpoint: {type(error).__name__}: {error}") from None

"""Saves a bad batch, so that it can be examined: as poison/batch-N.safetensors and .json in the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as safetensors_of

from loader.stream.schema import SparseBatch
from pool.coordinator.scheduler.actions import BadBatch
from pool.run_folder.access import make_folder
from pool.run_folder.files import replace_file, sweep

FOLDER = "poison"


def save_batch(run_dir: Path, batch: SparseBatch, action: BadBatch, origin: Mapping[str, Any]) -> Path:
    """Saves every array of a batch by name, and in a .json file beside it why the batch is bad and where in the data
    the batch comes from. Returns the path of the arrays. Raises OSError."""
    folder = run_dir / FOLDER
    make_folder(folder)
    sweep(folder)
    arrays = {"bucket_offsets": batch.bucket_offsets, **batch.dense}
    for name, view in batch.sparse.items():
        arrays |= {f"{name}.{key}": array for key, array in view.arrays().items()}
    path = folder / f"batch-{batch.number}.safetensors"
    replace_file(path, safetensors_of({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    description = json.dumps({**_describe(action), "origin": origin}, indent=1)
    replace_file(path.with_suffix(".json"), description.encode())
    return path


def _describe(action: BadBatch) -> dict[str, Any]:
    """Returns the facts about a bad batch by the keys of its .json file."""
    return {
        "step": action.step,
        "batch": action.batch,
        "why": action.reason,
        "cursor": None if action.cursor is None else asdict(action.cursor),
        "fatal": action.is_fatal,
        "members": action.members,
        "freezes": action.frozen_members,
        "machine": action.machine,
    }

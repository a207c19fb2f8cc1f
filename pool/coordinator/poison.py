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


def save(run_dir: Path, batch: SparseBatch, action: BadBatch, origin: Mapping[str, Any]) -> Path:
    """Saves every array of a batch by name, and in a .json file beside it why the batch is bad and where in the data it
    comes from. Returns the path of the arrays. Raises OSError."""
    folder = run_dir / FOLDER
    make_folder(folder)
    arrays = {"bucket_offsets": batch.bucket_offsets, **batch.dense}
    for name, view in batch.sparse.items():
        arrays |= {f"{name}.{key}": array for key, array in view.arrays().items()}
    path = folder / f"batch-{batch.number}.safetensors"
    sweep(folder)
    replace_file(path, safetensors_of({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    text = json.dumps({**asdict(action), "origin": origin}, indent=1)
    replace_file(path.with_suffix(".json"), text.encode())
    return path

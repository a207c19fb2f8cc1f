"""Reads and writes the description of an exported file, FILE.json beside it, which says what network it holds. The file
itself holds numbers only."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from loader.errors import DataError
from loader.files.user_file import read_user_file
from pool.run_folder import strict_json
from pool.tasks.chess.perspective.config import LossConfig, ModelConfig
from pool.tasks.chess.training.config import LossConfig as ChessLossConfig

TASK = "perspective"


def description_path(file: Path) -> Path:
    """Returns the path of a file's description."""
    return file.with_name(f"{file.name}.json")


def serialize_description(model: ModelConfig, loss: ChessLossConfig, data: bytes, text: str) -> bytes:
    """Returns the description, as JSON, of a file with the bytes `data`. `text` is the user's description."""
    tree = {
        "task": TASK,
        "description": text,
        "sha256": hashlib.sha256(data).hexdigest(),
        "model": model.model_dump(mode="json", exclude={"start_from"}),
        "loss": {"output_unit": loss.output_unit},
    }
    return json.dumps(tree, indent=1).encode() + b"\n"


class Description(NamedTuple):
    """The description of a file: the settings of its network."""

    model: ModelConfig
    loss: ChessLossConfig
    text: str
    sha256: str | None = None  # of the described file; None without a description

    def check_content(self, file: Path, data: bytes) -> None:
        """Checks that `data`, the file's bytes, are those that the description was written for. Raises DataError."""
        if self.sha256 != hashlib.sha256(data).hexdigest():
            raise DataError(description_path(file), f"belongs to another file than {file.name}: its sha256 differs")


def read_description(file: Path) -> Description | None:
    """Reads the description beside a file. Returns None if there is none. Raises DataError."""
    path = description_path(file)
    if not path.is_file():
        return None
    try:
        tree: Any = json.loads(read_user_file(path))
    except (OSError, ValueError, RecursionError):
        raise DataError(path, "is no description of a network: not JSON that can be read") from None
    if not isinstance(tree, dict) or tree.get("task") != TASK:
        raise DataError(path, f'is no description of a network: "task": "{TASK}" is expected')
    try:
        model = ModelConfig.model_validate_json(json.dumps(tree.get("model")))
        loss = LossConfig.model_validate_json(json.dumps(tree.get("loss")))
    except ValidationError as error:
        raise DataError(path, strict_json.describe_validation_error(error)) from None
    return Description(model, loss, str(tree.get("description", "")), str(tree.get("sha256")))

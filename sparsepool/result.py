"""What a run leaves: weights, metrics, checkpoints, read from its folder."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader.exit_codes import EXIT_DONE
from sparsepool.errors import one_line_errors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Result:
    """A run's folder; `sparsepool.Result(Path("runs/x"))` reads that of any run, also of one that goes on."""

    run_dir: Path
    exit_code: int = EXIT_DONE

    @property
    def checkpoint(self) -> Path | None:
        """The newest; None if there is none."""
        return self._linked("last")

    @property
    def best_checkpoint(self) -> Path | None:
        """The one that validated best; None without validations."""
        return self._linked("best")

    def weights(self, checkpoint: Path | None = None) -> dict[str, npt.NDArray[np.generic]]:
        """Arrays by the model's own names, in their shapes and dtypes (bfloat16 as float32); checked against the
        checkpoint's checksums.

        checkpoint: another than the newest, such as `best_checkpoint`. Raises SparsepoolError.
        """
        from pool.checkpoint.folder import locate
        from pool.checkpoint.state import WEIGHTS, read_state, verify_tensors

        with one_line_errors():
            folder = locate(Path(checkpoint or self.run_dir))
            header = verify_tensors(folder, read_state(folder), WEIGHTS)
            if any(entry.dtype == "BF16" for entry in header.values()):
                return _through_torch(folder / WEIGHTS)
            from safetensors.numpy import load_file

            return dict(load_file(folder / WEIGHTS))

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: one for each step, one more for each validation. Raises SparsepoolError."""
        records = []
        with one_line_errors():
            lines = (Path(self.run_dir) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        for line in lines:
            with suppress(ValueError):  # the last one, of a process that was killed
                records.append(json.loads(line))
        return records

    def _linked(self, name: str) -> Path | None:
        link = Path(self.run_dir) / "checkpoints" / name
        return link.resolve() if link.exists() else None


def _through_torch(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    import torch
    from safetensors.torch import load_file

    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for name, tensor in load_file(path).items()
    }

"""The result of a run, read from its folder: weights, metrics, checkpoints."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader.files.regular import open_regular
from sparsepool.errors import translate_errors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pool.export.member import MemberId

# late imports: a result may be asked for one thing; torch takes a second to load


@dataclass(frozen=True)
class Result:
    """The result of the run in a folder. `sparsepool.Result(Path("runs/x"))` reads that of any run, even one that still
    goes on."""

    run_dir: Path

    @property
    def exit_code(self) -> int | None:
        """Returns the code with which the run ended: 0 with all steps done, 128 + the signal's number if a signal
        stopped it. Returns None while the run goes on, and if it was killed."""
        from pool.telemetry.status import goes_on, read_status

        folder = Path(self.run_dir)
        with translate_errors():
            status = None if goes_on(folder) else read_status(folder)
        return None if status is None else status.exit_code

    @property
    def checkpoint(self) -> Path | None:
        """Returns the folder of the newest checkpoint; None if there is none."""
        return self._resolve_link("last")

    @property
    def best_checkpoint(self) -> Path | None:
        """Returns the folder of the checkpoint with the best validation; None without validations."""
        return self._resolve_link("best")

    def weights(
        self, checkpoint: Path | None = None, *, member: MemberId | None = None
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Returns the arrays that the model's `load_state_dict` takes, by its names, in their shapes and dtypes
        (bfloat16 as float32). They are checked against the checkpoint's checksums.

        checkpoint: another checkpoint than the newest, such as `best_checkpoint`.
        member: one network of an ensemble, by its number from 0, or "best" by train.best_metric in the checkpoint's
        newest validation. None: all networks, with names as `member.3.weight`.

        Raises SparsepoolError.
        """
        from pool.checkpoint.folder import find_checkpoint
        from pool.checkpoint.state import WEIGHTS, read_state, verify_tensors
        from pool.exchange.layout import member_prefix
        from pool.export.member import find_member, read_members

        with translate_errors():
            folder = find_checkpoint(Path(checkpoint or self.run_dir))
            state = read_state(folder)
            header = verify_tensors(folder, state, WEIGHTS)
            begin = ""
            if member is not None:
                begin = member_prefix(find_member(folder, state, member)[0], len(read_members(folder, state)))
            has_bfloat16 = any(entry.dtype == "BF16" for entry in header.values())
            arrays = _load_with_torch(folder / WEIGHTS) if has_bfloat16 else _load_with_numpy(folder / WEIGHTS)
        transient = set(state.transient)
        return {
            name.removeprefix(begin): array
            for name, array in arrays.items()
            if name.startswith(begin) and name not in transient
        }

    def metrics(self, *, member: int | None = None) -> list[dict[str, Any]]:
        """Returns the lines of metrics.jsonl as dicts: one for each step, one more for each validation. Raises
        SparsepoolError.

        member: one network of an ensemble, by its number from 0; its numbers are those of a run of its own. None: the
        numbers of the whole run, which are medians, with lists of all networks' numbers under "members".
        """
        records = []
        with translate_errors():
            if member is not None:
                _check_member(Path(self.run_dir), member)
            with os.fdopen(open_regular(Path(self.run_dir) / "metrics.jsonl"), encoding="utf-8") as file:
                lines = file.read().splitlines()
        for line in lines:
            with suppress(ValueError):  # the last line may be torn, if the process was killed
                records.append(json.loads(line))
        if member is None:
            return records
        from pool.metrics.medians import select_member

        return [select_member(record, member) for record in records]

    def _resolve_link(self, name: str) -> Path | None:
        link = Path(self.run_dir) / "checkpoints" / name
        return link.resolve() if link.exists() else None


def _check_member(run_dir: Path, member: int) -> None:
    from pool.analysis.records import read_run
    from pool.export.member import check_member

    check_member(str(run_dir), member, len(read_run(run_dir).members) or 1)


def _load_with_numpy(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    from safetensors.numpy import load_file

    return dict(load_file(path))


def _load_with_torch(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    import torch
    from safetensors.torch import load_file

    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for name, tensor in load_file(path).items()
    }

"""What a sweep has found: its members, the best first, with the settings in which they differ."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.analysis.table import moves
from pool.checkpoint.folder import locate
from pool.checkpoint.ranking import Ranking, rank
from pool.checkpoint.state import SavedState, read_state
from pool.config.member_settings import differing, flat
from pool.errors import CheckpointError
from pool.export.member import members_of
from pool.metrics.formatting import in_digits


@dataclass(frozen=True)
class Found:
    """Of a run that has ended."""

    state: SavedState
    ranking: Ranking
    settings: Sequence[Mapping[str, Any]]  # of each member, by dotted key

    def keys(self, varied: Sequence[str]) -> list[str]:
        """Those that were varied, and others in which the members differ."""
        return list(dict.fromkeys([*varied, *differing(self.settings)]))

    @property
    def note(self) -> str:
        """What the order goes by, in a line."""
        metric, trained = self.ranking.goal.metric, self.ranking.trained
        if trained:
            return f"no validation: ordered by the training loss, the mean of {trained}"
        note = f"ordered by the best validation {metric} of each, train.best_metric"
        if metric == "loss" and any(key.startswith("loss.") for key in differing(self.settings)):
            note += "; [loss] is not the same for all members, whose losses then measure different things"
        elif metric == "loss" and any(moves(each) for each in self.settings):
            note += "; lambda changes during the run, so losses of different steps measure different things"
        return note


def look_at(run_dir: Path) -> Found:
    """What the newest checkpoint of a run says of its members. Raises PoolError."""
    checkpoint = locate(run_dir)
    try:
        state = read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None
    settings = [dict(flat(member)) for member in members_of(checkpoint, state)]
    ranking = rank(checkpoint, state, at_best=True)
    if ranking is None or len(ranking.found) != len(settings):
        raise CheckpointError(f"{checkpoint}: says nothing of its members: neither validations nor losses are there")
    return Found(state, ranking, settings)


def as_data(found: Found, varied: Sequence[str]) -> list[dict[str, Any]]:
    """A member each, the best first; numbers that are not finite are None, as JSON has none."""
    rows = []
    for place, m in enumerate(found.ranking.order, 1):
        worth = found.ranking.found[m]
        numbers = {"loss": worth.loss, **worth.metrics}
        prefix = "training" if found.ranking.trained else "validation"
        rows.append(
            {
                "place": place,
                "member": m,
                "config": {key: found.settings[m].get(key) for key in found.keys(varied)},
                **{f"{prefix}_{name}": value if math.isfinite(value) else None for name, value in numbers.items()},
                "step": worth.step,
                "frozen_at": found.state.members[m].frozen_at if found.state.members else None,
            }
        )
    return rows


def rows(found: Found, varied: Sequence[str]) -> list[list[str]]:
    """The same as a table: headings, then a row a member."""
    data = as_data(found, varied)
    numbers = [name for name in data[0] if name.startswith(("training_", "validation_"))]
    frozen = ["frozen at"] if any(row["frozen_at"] is not None for row in data) else []
    headings = ["member", *data[0]["config"], *(name.replace("_", " ", 1) for name in numbers), "step", *frozen]
    return [headings, *([*_cells(row, numbers), *(_text(row["frozen_at"]) for _ in frozen)] for row in data)]


def _cells(row: Mapping[str, Any], numbers: Sequence[str]) -> list[str]:
    values = ["nan" if row[name] is None else in_digits(row[name]) for name in numbers]
    return [str(row["member"]), *map(_text, row["config"].values()), *values, str(row["step"])]


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value).strip('"')

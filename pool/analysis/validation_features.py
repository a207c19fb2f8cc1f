"""How many features of a run's validation data were never trained, counted in a process of its own:
`python -m pool.analysis.validation_features`, started by the supervisor at the run's end."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from loader.exit_codes import EXIT_DONE, EXIT_FAILED
from loader.plugins.error_text import error_line
from pool.process import lifeline
from pool.run_folder.access import keep_others_from_writing, shown

# late imports: the supervisor loads this module, and never torch


@dataclass(frozen=True)
class ValidationFeatures:
    """What is counted."""

    checkpoint: str
    task: str
    format: str | None  # data.format
    files: list[str]  # of validations
    batches: int  # that a validation takes

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def untrained_lines(asked: ValidationFeatures) -> list[str]:
    """Returns a line for each field of which more than a small share was never trained. Raises PoolError, DataError,
    ValueError."""
    from loader.files.identity import identify
    from loader.stream.sequential import batches_in_order
    from pool.analysis.untrained import FeatureUses
    from pool.config.changes import Change
    from pool.export.load import load_members
    from pool.export.run import data_config

    first = load_members(Path(asked.checkpoint), asked.task, "train")[0]
    changes = [] if asked.format is None else [Change.parse(f"data.format={json.dumps(asked.format)}")]
    config = data_config(first, changes, "train")
    uses = FeatureUses()
    batches = batches_in_order(config.data, identify([Path(path) for path in asked.files]), config.run.seed)
    for batch, _ in itertools.islice(batches, asked.batches):
        uses.add(batch)
    return [f"validation: {share}" for share in uses.untrained(first) if not share.is_small]


def main(arguments: list[str]) -> int:
    """`arguments`: the pid of the supervisor, with which this process dies; standard input has what is asked."""
    lifeline.die_with_parent(int(arguments[0]))
    keep_others_from_writing()
    try:
        lines = untrained_lines(ValidationFeatures(**json.load(sys.stdin)))
    except Exception as error:  # data, tasks and formats of the user's
        sys.stderr.write(f"{shown(error_line(error))}\n")
        return EXIT_FAILED
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Lists the facts that must be the same on all machines of a run, in words that show the user the first difference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version

from loader.files.fingerprint import content_sample
from loader.files.identity import DataFile
from loader.section import Effect
from pool.config.key_path import walk_fields
from pool.config.tree import Config
from pool.protocol.messages import Fact
from pool.run_folder.strict_json import value_at
from pool.supervisor.prepare.run_plan import RunPlan

_MOST_SHOWN = 200  # most characters that are shown of a value
# Keys with these effects may differ: content is compared, and the numerics that follow from the keys and the machine.
_NOT_THE_SAME = (Effect.NONE, Effect.SAME_FILES, Effect.NUMERICS)


def config_facts(config: Config, machines: int) -> list[Fact]:
    """Returns the facts of the config: version of sparsepool, number of machines, and all settings that change
    results."""
    settings = config.model_dump(mode="json")
    keys = [key for key, field in walk_fields(type(config)) if Effect.of(field) not in _NOT_THE_SAME]
    facts = [Fact("sparsepool", version("sparsepool")), Fact("--machines", str(machines))]
    return facts + [Fact(key, _shown(value_at(settings, key))) for key in keys]


def plan_facts(run: RunPlan) -> list[Fact]:
    """Returns the facts of the plan: data files, numerics, and what --override has changed. Raises DataChangedError,
    OSError."""
    files = {"data.train": run.train_files, "data.validation": run.validation_files}
    facts = [Fact(key, _files(found, run.config.data.may_grow)) for key, found in files.items()]
    changes = [[override.step, override.key, override.value] for override in run.overrides]
    facts.append(Fact("--override", _shown(changes)))
    return facts + [Fact(name, _shown(value)) for name, value in sorted(run.planned.fingerprint.items())]


def _files(files: Sequence[DataFile], may_grow: bool) -> str:
    named = [
        f"{file.path.name} of {file.size} bytes, content {content_sample(file, may_grow=may_grow)}" for file in files
    ]
    return _shown(", ".join(named))


def _shown(value: object) -> str:
    """Returns a value as text. A long one is cut, and a digest of the whole is added."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}... (all of it: {hashlib.sha256(text.encode()).hexdigest()[:8]})"

"""What the tasks for chess need of a batch. Free of torch."""

from __future__ import annotations

from loader.stream.schema import BatchSchema

FIELD = "features"  # two bags a sample: the inputs of the side to move, and of the other
_LABELS = frozenset({"score", "result"})  # of the loss


def num_inputs(schema: BatchSchema) -> int:
    """Of the feature set. Raises ValueError if such batches are not those of positions with score and result."""
    fields = {field.name: field for field in schema.sparse}
    if FIELD not in fields or fields[FIELD].bags_per_sample != 2:
        raise ValueError(f"data.source: batches have no sparse field {FIELD!r} with two bags a sample")
    if fields[FIELD].values:
        raise ValueError(f"data.source: the sparse field {FIELD!r} has values; these networks know none")
    if missing := _LABELS - {field.name for field in schema.dense}:
        raise ValueError(f"data.source: batches have no dense field {', '.join(sorted(missing))}")
    return fields[FIELD].num_features

"""Gradients that are too large for bfloat16 are not finite, and a batch is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from loader.stream.schema import BatchSchema, DenseField
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import TensorSpec, build_plan
from pool.worker.gradients import GradientWriter

SCHEMA = BatchSchema(8, (), (DenseField("x", "float32"),))
LARGE = 3.4e38  # a float32 that is rounded to an infinity


class Members(nn.Module):
    """Of one parameter each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(3))
        self.second = nn.Parameter(torch.empty(3))


def outcomes(
    dtype: str, factors: Sequence[tuple[float | None, float | None]]
) -> tuple[list[tuple[str, ...]], list[int]]:
    """Of the batches of a group, whose gradients are these numbers, or None: what is unsound of each member, and which
    buckets were announced."""
    plans = [build_plan([TensorSpec(name, (3,), "float32", 4)], [], [1]) for name in ("first", "second")]
    layout = Layout(SCHEMA, tuple(plans), dtype, len(factors))
    slot_nbytes = layout.slot_plan.nbytes + layout.touched_lists.nbytes
    with torch.device("meta"):
        model = Members()
    exchange = HostWorker(
        model,
        layout,
        halves=[np.zeros(layout.plan.nbytes, np.uint8)] * 2,
        slots=[np.zeros(slot_nbytes, np.uint8)],
    )
    exchange.load(0)
    announced: list[int] = []
    writer = GradientWriter(model, plans, exchange)
    writer.start_group(0, [GroupBatch({})] * len(factors), announced.append)
    for batch in factors:
        writer.start_batch()
        for member, (factor, parameter) in enumerate(zip(batch, model.parameters(), strict=True)):
            if factor is not None:
                (parameter * factor).sum().backward()  # type: ignore[no-untyped-call]
            writer.end_members([member], torch.zeros(1))
        writer.end_batch()
    writer.end_group()
    return [outcome.nonfinite for outcome in writer.read_outcomes(torch.zeros(len(factors), 2))], announced


@pytest.mark.parametrize(
    ("factors", "unsound", "announced"),
    [
        ([(1.0, LARGE)], [("", "second")], [0]),
        ([(LARGE, 1.0)], [("first", "")], []),
        ([(LARGE / 2, 1.0), (LARGE / 2, 1.0)], [("", ""), ("first", "")], []),
        ([(LARGE / 2, 1.0), (LARGE / 2, 1.0), (None, 1.0)], [("", ""), ("first", ""), ("", "")], [1]),
        ([(torch.inf, 1.0), (1.0, -LARGE)], [("first", ""), ("", "second")], []),
        ([(LARGE, 1.0), (-LARGE, 1.0)], [("", ""), ("", "")], [0]),
    ],
)
def test_what_is_too_large_when_it_is_handed_over_is_the_last_batchs_fault(
    factors: list[tuple[float | None, float | None]], unsound: list[tuple[str, str]], announced: list[int]
) -> None:
    """Unless a gradient of its own was not finite. A member's last bucket is not announced then."""
    assert outcomes("bfloat16", factors) == (unsound, announced)
    plain = [tuple("" if x is None or np.isfinite(x) else "first" for x in batch) for batch in factors]
    assert outcomes("float32", factors)[0] == [tuple(batch) for batch in plain]


def test_a_slots_layout_is_that_of_the_weights_with_narrower_numbers() -> None:
    table = TensorSpec("table", (100, 16), "float32", 4, "features")
    plan = build_plan(
        [table, TensorSpec("scalar", (), "float32", 4)],
        [TensorSpec("mean", (9,), "float64", 8)],
        [64, 2048],
        split_tables=True,
    )
    narrow = Layout(SCHEMA, (plan,), "bfloat16").slot_plan
    assert Layout(SCHEMA, (plan,), "float32").slot_plan is plan
    assert [(t.name, t.dtype, t.nbytes, t.offset % 256) for t in (*narrow.parameters, *narrow.buffers)] == [
        ("table", "bfloat16", 3200, 0),
        ("scalar", "bfloat16", 2, 0),
        ("mean", "float64", 72, 0),
    ]
    assert [(b.parameters, b.rows) for b in narrow.buckets] == [(b.parameters, b.rows) for b in plan.buckets]
    for bucket in narrow.buckets:
        first, last = bucket.rows or (0, 0)
        if bucket.rows is not None:
            assert (bucket.offset, bucket.nbytes) == (narrow.parameters[0].offset + 32 * first, 32 * (last - first))
    ends = sorted((t.offset, t.offset + t.nbytes) for t in (*narrow.parameters, *narrow.buffers))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] <= narrow.nbytes < plan.nbytes

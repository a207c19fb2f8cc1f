"""What a step takes at least, whether more cards pay, and what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loader.stream.schema import BatchSchema, SparseField
from pool.cost_model.traffic import Box, Load
from pool.cost_model.verdict import step_of, verdict_of
from pool.cost_model.work import Work, work_of
from pool.device.cards import Speeds
from pool.exchange.plan import TensorSpec, make_plan
from pool.exchange.slot_layout import slot_layout

SPEEDS = Speeds(inward=25, outward=25, memory=900, host=65, products=40_000)
BOX = Box(link=25, host=65, memory=900)
WORK = Work(
    2, 1, 16_384, 4 << 20, Load(92.3e6, 55.4e6), rounded=False, gathered=8_700_000_000, operations=14_000_000_000
)
HOST = "host"


@pytest.mark.parametrize(
    ("batches", "k", "cards", "compute", "link", "host"),
    [
        (1, 1, 1, 10.0, 6.1, 11.7),
        (2, 1, 2, 10.0, 6.1, 14.9),
        (4, 1, 2, 20.0, 8.5, 18.4),  # the weights travel once
        (4, 4, 1, 40.1, 6.6, 11.9),
        (2, 1, 8, 10.0, 6.1, 14.9),  # six are idle
    ],
)
def test_a_steps_parts(batches: int, k: int, cards: int, compute: float, link: float, host: float) -> None:
    step = step_of(replace(WORK, batches_per_step=batches, batches_per_group=k), SPEEDS, BOX, cards, HOST)
    assert (step.compute, step.link, step.host) == pytest.approx((compute, link, host), abs=0.06)
    assert step.total == max(step.compute, step.link, step.host)


def test_a_second_card_pays_where_computing_takes_longest() -> None:
    found = verdict_of(replace(WORK, gathered=50_000_000_000), SPEEDS, BOX, 2, HOST)
    assert found.pays
    assert found.helps == ()
    assert list(found.lines()) == [
        "a step takes at least 55.9 ms (computing 55.9, links 6.1, host's memory 14.9) with 2 cards",
        "with 1 card 111.8 ms (computing 111.8, links 8.5, host's memory 13.5)",
    ]


def test_where_it_will_not_pay_the_line_says_why_and_what_would_help() -> None:
    small = replace(WORK, gathered=500_000_000, operations=0)
    found = verdict_of(small, SPEEDS, BOX, 2, HOST)
    assert not found.pays
    assert list(found.lines())[2:] == [
        "more than one card will not pay: the host's memory bounds the step",
        "would help: train.batches_per_group=4 with train.batches_per_step=8 (4.4 ms for as many samples); "
        "data.batch_size=32768 (8.6 ms for as many samples)",
    ]


def test_narrower_gradients_help_where_the_link_is_slow_and_they_are_not_narrow_yet() -> None:
    slow, words = replace(BOX, link=5), "train.gradient_dtype=bfloat16 (24.8 ms for as many samples)"
    assert words in verdict_of(replace(WORK, operations=0), SPEEDS, slow, 2, HOST).helps
    rounded = replace(WORK, load=Load(92.3e6, 27.7e6), rounded=True)
    assert not any("bfloat16" in each for each in verdict_of(rounded, SPEEDS, slow, 2, HOST).helps)


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
def test_more_cards_never_make_a_cards_part_longer(cards: int) -> None:
    work = replace(WORK, batches_per_step=8)
    one, more = (step_of(work, SPEEDS, BOX, count, HOST) for count in (1, cards))
    assert more.compute == pytest.approx(one.compute / cards)
    assert more.link <= one.link
    assert more.host >= one.host


def test_work_is_read_from_the_model_and_the_batch() -> None:
    specs = [TensorSpec("table", (1000, 64), "float32", 4, "features"), TensorSpec("dense", (64, 10), "float32", 4)]
    plan = make_plan(specs, [], [512])
    schema = BatchSchema(8, (SparseField("features", 1000, 4, 2),), ())
    found = work_of(plan, plan, schema, batches_per_step=6, batches_per_group=2)
    assert found.load == Load(weights=plan.nbytes, gradient=256 * 2 * 64 + 2560)  # two batches of 64 active
    assert found.gathered == 2 * 256 * (64 + 16)
    assert found.operations == 6 * 640 * 8
    assert work_of(plan, plan, schema, 600, 600).load.gradient == 256 * 1000 + 2560, "no more rows than there are"
    narrow = work_of(plan, slot_layout(plan, "bfloat16"), schema, 6, 2)
    assert narrow == replace(found, load=replace(found.load, gradient=found.load.gradient / 2), rounded=True)

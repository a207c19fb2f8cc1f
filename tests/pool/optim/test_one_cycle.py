"""OneCycleLR by the schedule's settings gives the rates of nnue-pytorch's recipes."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
import torch
from torch import nn

from pool.config.load import parse_config
from pool.optim.schedules import make_schedule, skip_to
from tests.support.paths import DATA

CASES: dict[str, dict[str, Any]] = json.loads((DATA / "recipe/settings.json").read_text())["onecycle"]


@pytest.mark.parametrize("name", CASES)
def test_rates_are_those_of_the_recipes_of_2026(name: str) -> None:
    args = {**CASES[name], "cycle_momentum": False}
    tree = {"task": "tests.support.toy", "schedule": {"name": "torch.optim.lr_scheduler.OneCycleLR", "args": args}}
    schedule = parse_config(tree, "test").schedule.resolve(args["total_steps"])
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make_schedule(optimizer, schedule)
    lines = (DATA / "recipe/onecycle.tsv").read_text().splitlines()
    rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["case"] == name]
    assert len(rows) >= 10
    for row in rows:
        if step := int(row["step"]):  # before the first one the schedule stands at step 0
            skip_to(scheduler, step - 1)
            optimizer.step()
            scheduler.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(float(row["rate"]), rel=1e-15, abs=0)

"""The benchmark behind the documentation's table of losses makes such a table."""

from __future__ import annotations

import json
import re
import sys

import pytest

from benchmarks import learning
from benchmarks.learning import NETWORKS, Row, config_of, table
from pool.config.changes import Change
from pool.config.load import changed_config
from pool.tasks.perspective.config import ModelConfig as PerspectiveModel
from tests.support.paths import ROOT

LINE = re.compile(r"\| `[\w.-]+`, (\d+ wide|learning rate 1e-05) \| \d+ \| [\d. to]+ \| (\d\.\d{5}(, )?)+ \|")
PAGE = ROOT / "docs/reference/chess-training.md"


def test_a_network_is_trained_and_its_losses_are_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = ROOT / "configs/sample/validation.binpack"
    words = f"--networks simple@16 --steps 2 --seeds 7 --data {sample}"
    monkeypatch.setattr(sys, "argv", ["learning", *words.split()])
    learning.main()
    *shown, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"validation\.binpack: [\d,]+ positions to learn from, [\d,]+ held out", shown[0])
    (row,) = json.loads(last)["rows"]
    assert (row["network"], row["steps"], len(row["before"]), len(row["after"])) == ("simple@16", 2, 1, 1)
    assert 0 < row["after"][0] < row["before"][0] < 1
    assert shown[1:] == table([Row(**row)]).splitlines()
    assert LINE.fullmatch(shown[-1])


@pytest.mark.parametrize("network", NETWORKS)
def test_the_settings_of_each_network_can_be_read(network: str) -> None:
    changes = [Change(key, value, is_toml=True) for key, value in config_of(network).items()]
    model = changed_config({"task": config_of(network)["task"]}, changes, "test").model
    width = model.width if isinstance(model, PerspectiveModel) else model.l1  # type: ignore[attr-defined]
    assert width == int(network.partition("@")[2])


def test_the_documentation_has_a_row_of_each_network() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if LINE.fullmatch(line)]
    for network in NETWORKS:
        name, _, width = network.partition("@")
        assert any(line.startswith(f"| `{name}`, {width} wide | 300 |") and line.count(",") == 3 for line in lines)
    assert any(line.startswith("| `nn-1a298aa575a0.nnue`, learning rate") for line in lines)

"""The model of the exchange, against figures that were computed beforehand; and the table in the documentation."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import exchange_model
from benchmarks.exchange_model import CARDS, EXCHANGES, MACHINES, WEIGHTS, in_short, per_batch
from pool.cost_model.traffic import SCHEMES, Box, Load, touched_by
from tests.support.paths import ROOT

RTX_4090 = Box(link=25, host=65, memory=900)
NOTED = {  # ms of busiest link / host's memory / card's memory, by scheme, network, cards
    ("host, float32", "l1 1024", 1): "6/12/0",
    ("host, float32", "l1 1024", 4): "6/21/0",
    ("host, float32", "l1 3072", 1): "18/35/0",
    ("host, float32", "l1 3072", 4): "18/63/0",
    ("host, bfloat16", "l1 1024", 1): "5/11/0",
    ("host, bfloat16", "l1 1024", 4): "5/18/0",
    ("host, bfloat16", "l1 3072", 1): "14/32/0",
    ("host, bfloat16", "l1 3072", 4): "14/53/0",
    ("device, float32", "l1 1024", 1): "0/0/0.7",
    ("device, float32", "l1 1024", 4): "10/11/0.9",
    ("device, float32", "l1 3072", 1): "0/0/2",
    ("device, float32", "l1 3072", 4): "31/32/3",
    ("rows shared out", "l1 1024", 1): "0/0/0.7",
    ("rows shared out", "l1 1024", 4): "4/11/0.2",
    ("rows shared out", "l1 3072", 1): "0/0/2",
    ("rows shared out", "l1 3072", 4): "13/32/0.6",
}


@pytest.mark.parametrize(("where", "figures"), NOTED.items(), ids=lambda value: str(value))
def test_the_model_agrees_with_figures_computed_before_it(where: tuple[str, str, int], figures: str) -> None:
    scheme, network, cards = where
    assert in_short(per_batch(scheme, WEIGHTS[network], cards, 1, RTX_4090)) == figures


def test_faster_links_and_peers() -> None:
    weights = WEIGHTS["l1 3072"]
    server = per_batch("rows shared out", weights, 4, 1, Box(link=50, host=250, memory=3000))
    assert (round(server.link, 1), round(server.host, 1)) == (6.6, 8.4)
    slow, nvlink = (
        per_batch("rows shared out", weights, 4, 1, Box(link=25, host=65, memory=900, peer=peer)) for peer in (0, 450)
    )
    assert slow.link / nvlink.link == pytest.approx(18)
    assert nvlink.host == 0


def test_one_card_alone_moves_nothing_unless_the_host_steps() -> None:
    load = Load(weights=100.0, gradient=60.0)
    for name, scheme in SCHEMES.items():
        cost = scheme(load, 1, RTX_4090)
        assert ((cost.link, cost.host) == (0, 0)) is not name.startswith("host")


def test_groups_divide_what_travels_less_than_by_their_size() -> None:
    """They touch more rows."""
    assert touched_by(0.6, 1) == pytest.approx(0.6)
    assert touched_by(0.6, 4) == pytest.approx(0.9744)
    one, four = (per_batch("host, float32", 92.3e6, 4, k, RTX_4090) for k in (1, 4))
    assert 2 < one.host / four.host < 4


def test_the_table_in_the_documentation_is_the_models(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["exchange_model"])
    exchange_model.main()
    printed, line = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    assert printed in (ROOT / "docs/explanation/gpu.md").read_text()
    assert len(json.loads(line)["rows"]) == len(MACHINES) * len(EXCHANGES) * 2
    assert len(MACHINES) == 5
    assert CARDS == (1, 2, 4, 8)

"""The pictures of docs/explanation/nnue.md: drawn by the script, with the loader's numbers, and no words upon words."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest

from loader import _native
from pool.tasks.chess.positions import Inputs, read_fen
from tests.support.paths import ROOT

FOLDER = ROOT / "docs/pictures"
SCRIPT = runpy.run_path(str(FOLDER / "nnue.py"))
DRAWINGS = SCRIPT["DRAWINGS"]
SVG = "{http://www.w3.org/2000/svg}"


def fen(position: Mapping[str, str], side: str) -> str:
    ranks = []
    for rank in "87654321":
        row = "".join(position.get(file + rank, " ") for file in "abcdefgh")
        ranks.append(re.sub(" +", lambda empty: str(len(empty[0])), row))
    return f"{'/'.join(ranks)} {side} - - 0 1"


def places(text: Any) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of words; a wide font has them 0.56 of its size wide on average."""
    size = float(text.get("font-size"))
    width = 0.56 * size * len(text.text)
    left = float(text.get("x")) - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")] * width
    base = float(text.get("y"))
    return left, base - 0.75 * size, left + width, base + 0.2 * size


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_what_the_script_draws(name: str) -> None:
    assert (FOLDER / name).read_text() == DRAWINGS[name]().svg()
    assert f"(../pictures/{name})" in (ROOT / "docs/explanation/nnue.md").read_text()


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_lie_within_the_picture_and_not_upon_others(name: str) -> None:
    root = ElementTree.fromstring((FOLDER / name).read_text())
    _, _, width, height = map(float, root.get("viewBox", "").split())
    texts = [(text.text, places(text)) for text in root.iter(f"{SVG}text")]
    assert len(texts) > 5
    for words, (left, top, right, bottom) in texts:
        assert left >= 0, words
        assert top >= 0, words
        assert right <= width, words
        assert bottom <= height, words
    for (one, a), (other, b) in combinations(texts, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], f"{one!r} and {other!r}"


def test_the_numbers_drawn_are_those_of_the_loader() -> None:
    position, seen = SCRIPT["POSITION"], SCRIPT["features"]
    for side, black in (("w", False), ("b", True)):
        known = read_fen(fen(position, side), Inputs("chess768"))
        assert sorted(known.own.tolist()) == [each[3] for each in seen(position, black)]


def test_the_relations_drawn_are_those_of_the_loader() -> None:
    known = read_fen(fen(SCRIPT["WITH_KNIGHT"], "w"), Inputs("SFNNv16"))
    pieces, threats = (_native.describe_feature_set(name)[0] for name in ("HalfKAv2_hm", "HalfKAv2_hm + threats"))
    assert sum(pieces <= number < threats for number in known.own.tolist()) == len(SCRIPT["ATTACKS"])
    assert sum(number >= threats for number in known.own.tolist()) == len(SCRIPT["PAWN_PAIRS"])

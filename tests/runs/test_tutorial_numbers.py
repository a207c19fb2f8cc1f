"""The numbers that the tutorial prints of its network are those of a run of today, as far as processors agree."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.warm import call_pool

PAGE = ROOT / "docs/tutorial/first-net.md"
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
NO_QUEEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"


def output_of(folder: Path, *arguments: str) -> str:
    done = call_pool(*arguments, timeout=280, cwd=folder, environment={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def validation_in(text: str) -> float:
    return float(re.findall(r"best and newest checkpoint: .*, validation ([\d.]+)", text)[-1])


def pawns_in(text: str, position: str) -> float:
    return float(re.findall(rf"^ *([+-][\d.]+) +[+-]\d+  {re.escape(position)}$", text, re.MULTILINE)[-1])


@pytest.mark.runs
def test_the_numbers_of_the_first_network_are_those_of_a_run(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    output_of(tmp_path, "configs", "demo", "-o", "first.toml")
    train = ("train", "first.toml", "--set", "run.dir=runs/first")
    short = output_of(tmp_path, *train, "--set", "train.steps=60")
    assert validation_in(short) == pytest.approx(validation_in(page), rel=0.02)
    output_of(tmp_path, *train, "--resume")
    output_of(tmp_path, "export", "runs/first", "-o", "first.nnue")
    for position in (START, NO_QUEEN):
        pawns = pawns_in(output_of(tmp_path, "eval", "first.nnue", "--fen", position), position)
        assert pawns == pytest.approx(pawns_in(page, position), abs=0.15)
    printed = re.search(r"NNUE evaluation +([+-][\d.]+) \(white side\)", page)
    assert printed is not None
    assert float(printed[1]) == pawns_in(page, START)

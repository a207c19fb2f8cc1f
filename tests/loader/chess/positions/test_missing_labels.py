"""An entry may lack its score (the mark 32002, which has no side) or its result: known as that in every part, refused
or named where a format has no room for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sparsepool
from loader._native import Filter
from loader.chess.filters import FilterConfig
from loader.chess.filters.native_settings import filter_settings
from loader.chess.positions.entry import NO_RESULT, NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.chess.python_reader import PythonChunks
from loader.cli.main import main
from tests.loader.chess.filters.test_filters import RECORD, results, with_results
from tests.support.positions import FORMATS, SUFFIXES, make_writer

Capture = pytest.CaptureFixture[str]
BLACK = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
WHITE = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
LINES = f"{BLACK} | 31 | *\n{WHITE} | 32002 | 1.0\n{BLACK} | 32002 | *\n{WHITE} | -7 | 0.0\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "some.txt"
    path.write_text(LINES)
    return path


@pytest.mark.parametrize("mark", [NO_SCORE, -NO_SCORE])
def test_white_s_mark_of_no_score_is_the_mover_s(tmp_path: Path, mark: int) -> None:
    path = tmp_path / "marked.txt"
    path.write_text(f"{BLACK} | {mark} | 0.5\n{BLACK} | 31 | 0.5\n")
    blocks = sparsepool.open(path).blocks()
    assert [int(score) for block in blocks for score in block["score"]] == [NO_SCORE, -31]


def test_text_has_both_marks_and_every_reader_knows_them(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    assert [(each.score, each.result) for each in entries(lines)] == [
        (-31, None),
        (NO_SCORE, 1),
        (NO_SCORE, None),
        (-7, -1),
    ]
    (block,) = sparsepool.open(lines).blocks()
    assert block["result"].tolist() == [NO_RESULT, 1, NO_RESULT, -1]
    assert main(["dump", str(lines)]) == 0
    assert [line.split("\t")[4] for line in capsys.readouterr().out.splitlines()] == ["none", "1", "none", "-1"]
    assert main(["convert", str(lines), "-o", str(tmp_path / "again.txt")]) == 0
    assert (tmp_path / "again.txt").read_text() == LINES


def test_statistics_count_what_is_missing(lines: Path, capsys: Capture) -> None:
    assert main(["inspect", "--json", str(lines)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"] == {"loss": 1, "draw": 0, "win": 1, "none": 2}
    assert found["no_score"] == 2
    assert found["score"]["mean"] == pytest.approx((-31 - 7) / 2)
    assert sum(each["loss"] + each["draw"] + each["win"] for each in found["calibration"]) == 1


@pytest.mark.parametrize("name", [name for name in ("binpack", *FORMATS) if name not in ("text", "pgn")])
def test_other_formats_refuse_an_entry_without_a_result(name: str) -> None:
    writer = make_writer(name)
    writer.add(WHITE, "g1f3", 5, 2, 0)
    behind = "rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq -"
    for fen, move, ply in ((WHITE, "g1f3", 2), (behind, "b8c6", 3)):
        with pytest.raises(ValueError, match="no room for an entry without a result: loader filter --where has_result"):
            writer.add(fen, move, 5, ply, None)
    assert writer.entries == 1


def test_such_entries_can_be_left_out(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / f"some{SUFFIXES['marlinformat']}"
    where = ["--where", "has_result", "--keep-no-score", "--lossy"]
    assert main(["filter", str(lines), "-o", str(target), *where]) == 0
    assert [(each.score, each.result) for each in entries(target)] == [(NO_SCORE, 1), (-7, -1)]
    assert "no score, written as 32002, which only this program knows: 1 position\n" in capsys.readouterr().err


def test_a_reader_in_python_may_give_none() -> None:
    class Reader:
        name, num_chunks = "some", 1

        def read(self, chunk: int) -> list[Entry]:  # noqa: ARG002
            return [Entry(WHITE, "g1f3", NO_SCORE, None, None), Entry(WHITE, "g1f3", 1, 2, 1)]

    records, fault, _ = PythonChunks(Reader()).read(0)  # type: ignore[arg-type]  # a reader as far as it is asked
    assert fault is None
    assert results(records.view(RECORD).ravel()).tolist() == [NO_RESULT, 1]


def test_filters_leave_out_what_has_neither_and_judge_no_mark() -> None:
    """score, result of entries; what is kept with every filter of scores and results, and skip_no_score off."""
    given = [(NO_SCORE, NO_RESULT, 0), (NO_SCORE, -1, 1), (300, NO_RESULT, 1), (3000, NO_RESULT, 0), (-900, 1, 0)]
    records = np.zeros(len(given), RECORD)
    records["score"] = [each[0] for each in given]
    with_results(records, [each[1] for each in given])
    kings = (1 << 4) | (1 << 60)
    records["occupied"] = kings
    records["planes"][:, 1:] = [[3, 0, 3]] * len(given)  # the code of a king: 10 and 11
    records["planes"][:, 0] = 2
    filters = FilterConfig(skip_no_score=False, max_score=2000, max_score_against_result=100, win_draw_loss=True)
    for seed in range(20):
        chosen = Filter(filter_settings(filters), seed).choose(records.view(np.uint8).reshape(-1, 32), 0)
        assert chosen.tolist() == [kept for *_, kept in given]

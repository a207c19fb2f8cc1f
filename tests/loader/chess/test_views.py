"""Views of scores and results: settings that read files of another view than their format's, and what shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.readers import open_readers
from loader.chess.tools.convert import convert
from loader.chess.views import Agreement, ViewEvidence
from loader.cli.main import main
from loader.files.identity import DataFile, identify
from loader.formats.format import Reader
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import KEEP_ALL
from tests.support.paths import ROOT

NO_SCORE = 32002
NO_RESULT = -128
POSITIONS = 1024
SAMPLE = ROOT / "configs/sample/validation.binpack"
WITH_SIDE = ("a.binpack", "a.psv", "a.plain", "a.viri", "a.marlin", "a.montyvalue", "a.txt")


def config(**chess: Any) -> DataConfig:
    return data_config(
        batch_size=POSITIONS, shuffle=False, chess={"features": "chess768", "filters": KEEP_ALL, **chess}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Positions of the bundled sample, in every format that is written: one chunk, so that all streams are alike."""
    folder = tmp_path_factory.mktemp("views")
    whole, part = folder / "whole.plain", folder / "part.plain"
    convert(open_sources([SAMPLE]), target_from_name(whole), whole)
    part.write_text("".join(whole.read_text().splitlines(keepends=True)[: 6 * 4000]))
    for name in (*WITH_SIDE, "a.bf"):
        convert(open_sources([part]), target_from_name(folder / name), folder / name)
    return {name: folder / name for name in (*WITH_SIDE, "a.bf")}


@pytest.fixture(scope="module")
def of_movers(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of text whose scores and results are the mover's, as people write them; the format means White's."""
    path = tmp_path_factory.mktemp("movers") / "movers.txt"
    opposite = {"1.0": "0.0", "0.5": "0.5", "0.0": "1.0"}
    with path.open("w") as out:
        for line in files["a.txt"].read_text().splitlines():
            fen, score, result = (part.strip() for part in line.split("|"))
            if fen.split()[1] == "b":
                score, result = str(-int(score)), opposite[result]
            out.write(f"{fen} | {score} | {result}\n")
    return path


def labels(settings: DataConfig, path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns scores and results of the first positions."""
    with closing(open_stream(settings, identify([path]), 5)) as stream:
        slots = allocate_slots(stream.schema, 1)
        stream.attach(slots)
        stream.give(0)
        while stream.take() is None:
            pass
        dense = SparseBatch.view(stream.schema, slots[0]).dense
        return np.array(dense["score"], np.int64), np.array(dense["result"], np.int64)


@pytest.fixture(scope="module")
def black_to_move(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> npt.NDArray[np.bool_]:
    """Tells of the first positions of a stream which side is to move: White is always 7 ahead."""
    path = tmp_path_factory.mktemp("sides") / "sides.txt"
    lines = (line.split("|") for line in files["a.txt"].read_text().splitlines())
    path.write_text("".join(f"{fen}| 7 |{result}\n" for fen, _, result in lines))
    is_black: npt.NDArray[np.bool_] = labels(config(), path)[0] < 0
    return is_black


@pytest.mark.parametrize("name", WITH_SIDE)
@pytest.mark.parametrize("label", ["score", "result"])
def test_the_other_view_has_the_opposite_sign_where_black_is_to_move(
    label: str, name: str, files: dict[str, Path], black_to_move: npt.NDArray[np.bool_]
) -> None:
    plain = dict(zip(("score", "result"), labels(config(), files[name]), strict=True))
    read = {
        view: dict(zip(("score", "result"), labels(config(**{f"{label}_view": view}), files[name]), strict=True))
        for view in ("mover", "white")
    }
    missing = {"score": NO_SCORE, "result": NO_RESULT}[label]
    flipped = np.where(black_to_move & (plain[label] != missing), -plain[label], plain[label])
    assert (flipped != plain[label]).sum() > 100
    changed = [view for view in read if not (read[view][label] == plain[label]).all()]
    assert len(changed) == 1  # the view that is not the format's
    assert (read[changed[0]][label] == flipped).all()
    other = "result" if label == "score" else "score"
    assert all((each[other] == plain[other]).all() for each in read.values())


def test_a_file_of_the_movers_view_is_read_right_with_the_settings(files: dict[str, Path], of_movers: Path) -> None:
    right = labels(config(), files["a.txt"])
    wrong = labels(config(), of_movers)
    mended = labels(config(score_view="mover", result_view="mover"), of_movers)
    assert not (wrong[0] == right[0]).all()
    assert (mended[0] == right[0]).all()
    assert (mended[1] == right[1]).all()


def facts(settings: DataConfig, paths: Sequence[Path]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for fact in Data(settings, identify(paths)).describe():
        found.setdefault(fact.topic, []).append(fact.text)
    return found


@pytest.mark.parametrize("name", [*WITH_SIDE, "a.bf"])
def test_material_agrees_with_the_view_of_every_format(name: str, files: dict[str, Path]) -> None:
    found = facts(config(), [files[name]])
    for label in ("score", "result"):
        (text,) = found[f"{label} view"]
        assert "material agrees: 9" in text


@pytest.mark.parametrize("name", WITH_SIDE)
def test_of_a_large_file_the_beginning_is_looked_at(
    name: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = files[name].stat().st_size
    monkeypatch.setattr("loader.chess.description._MAX_NBYTES", size // 2)
    opened: list[int] = []

    def opening(settings: DataConfig, given: Sequence[DataFile]) -> list[Reader]:
        opened.append(given[0].size)
        return open_readers(settings, given)

    monkeypatch.setattr("loader.chess.description.open_readers", opening)
    (text,) = facts(config(), [files[name]])["score view"]
    assert "material agrees: 9" in text or opened[0] == 0  # of one chunk of a binpack, none is whole
    assert opened[0] <= size // 2


def test_a_file_of_another_view_is_named_among_others(files: dict[str, Path], of_movers: Path) -> None:
    found = facts(config(), [files["a.txt"], of_movers])
    for label in ("score", "result"):
        warning, usual = found[f"{label} view"]
        assert warning.startswith("warning: White's (text: movers.txt), but looks like the mover's:")
        assert warning.endswith(
            f"data.chess.{label}_view is for all files of a run, and others are right: write these anew"
        )
        assert usual.startswith("White's (text: a.txt); material agrees")
    alone = facts(config(), [of_movers])
    assert all(
        alone[f"{label} view"][0].endswith(f'data.chess.{label}_view = "mover" reads it so')
        for label in ("score", "result")
    )
    mended = facts(config(score_view="mover", result_view="mover"), [of_movers])
    for label in ("score", "result"):
        assert mended[f"{label} view"][0].startswith("the mover's (text: movers.txt); material agrees")


def test_inspect_says_what_labels_look_like(
    of_movers: Path, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(of_movers)]) == 0
    shown = capsys.readouterr().out
    assert "how your data was read:" in shown
    assert "score view   warning: White's (text), but looks like the mover's: scores have the sign of material" in shown
    assert "result view  warning: White's (text), but looks like the mover's" in shown
    assert main(["inspect", "--json", str(of_movers)]) == 0
    wrong = json.loads(capsys.readouterr().out)
    assert main(["inspect", "--json", str(files["a.txt"])]) == 0
    right = json.loads(capsys.readouterr().out)
    assert (wrong["score_view"]["read_as"], wrong["score_view"]["looks_like"]) == ("white", "mover")
    assert (right["score_view"]["read_as"], right["score_view"]["looks_like"]) == ("white", "white")
    assert wrong["score_view"]["white_to_move"] == right["score_view"]["white_to_move"]
    assert wrong["score_view"]["black_to_move"]["share"] < 0.1
    assert {fact["topic"] for fact in right["read"]} == {"score unit", "score view", "result view"}


def test_too_few_positions_show_no_view(tmp_path: Path, files: dict[str, Path]) -> None:
    few = tmp_path / "few.txt"
    few.write_text("".join(files["a.txt"].read_text().splitlines(keepends=True)[:40]))
    (text,) = facts(config(), [few])["score view"]
    assert text == "White's (text: few.txt); material does not show whether that is so"


@pytest.mark.parametrize(
    ("view", "white", "black", "looks_like"),
    [
        ("mover", (90, 10), (90, 10), "mover"),
        ("mover", (90, 10), (10, 90), "white"),
        ("mover", (10, 90), (90, 10), "black"),
        ("mover", (10, 90), (10, 90), "opponent"),
        ("white", (90, 10), (90, 10), "white"),
        ("white", (90, 10), (10, 90), "mover"),
        ("white", (10, 90), (90, 10), "opponent"),
        ("white", (10, 90), (10, 90), "black"),
        ("white", (50, 50), (90, 10), None),
        ("white", (9, 1), (90, 10), None),
        ("mover", (90, 10), (0, 0), "mover"),
        ("mover", (0, 0), (0, 0), None),
    ],
)
def test_the_view_follows_from_both_sides_to_move(
    view: Any, white: tuple[int, int], black: tuple[int, int], looks_like: str | None
) -> None:
    assert ViewEvidence(view, Agreement(*white), Agreement(*black)).looks_like == looks_like


def test_a_view_that_a_format_can_not_have_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.chess\.score_view: files in bulletformat do not say who was to move"):
        open_stream(config(score_view="white"), identify([files["a.bf"]]), 1)
    games = tmp_path / "a.pgn"
    games.write_text("1. e4 {+0.31/12} e5 1-0\n")
    with pytest.raises(
        ValueError, match=r"data\.chess\.score_view: each comment of a file in pgn has a view of its own"
    ):
        open_stream(config(score_view="white"), identify([games]), 1)

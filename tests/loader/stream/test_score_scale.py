"""`score_scale` of an entry of files: scores are multiplied as they are read, whatever the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import _native
from loader.chess.filters import FilterConfig
from loader.files.identity import DataFile, identify
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.mixture_entries import parse_train_files, parse_validation_files
from loader.stream.mixture_files import apply_entry_settings, find_entry_files
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import KEEP_ALL

NO_SCORE = 32002
CONFIG = data_config(batch_size=64, shuffle=False, chess={"features": "chess768", "filters": KEEP_ALL})
CENTIPAWNS = ("p.bf", "p.marlin", "p.viri", "p.montyvalue", "p.txt", "p.txt.gz")
UNITS = {"games.binpack": "internal units", "p.psv": "internal units", **dict.fromkeys(CENTIPAWNS, "centipawns")}


@pytest.fixture(scope="module")
def files(game_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The first 512 entries in every format that comes with the loader."""
    from loader.chess.positions.format import target_from_name
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.convert import convert

    folder = tmp_path_factory.mktemp("formats")
    made = {name: folder / name for name in UNITS if name.startswith("p.")}
    for path in made.values():
        convert(open_sources([game_files[2]]), target_from_name(path), path)
    return {"games.binpack": game_files[2], **made}


def scores(config: DataConfig, files: Sequence[DataFile], batches: int = 8) -> npt.NDArray[np.int16]:
    """Returns the scores of the first batches."""
    found = []
    with closing(open_stream(config, files, 5)) as stream:
        slots = allocate_slots(stream.schema, 1)
        stream.attach(slots)
        for _ in range(batches):
            stream.give(0)
            while stream.take() is None:
                pass
            found.append(np.array(SparseBatch.view(stream.schema, slots[0]).dense["score"]))
    return np.concatenate(found)


def scaled(files: Sequence[Path], scale: float) -> tuple[DataFile, ...]:
    return tuple(replace(file, score_scale=scale) for file in identify(files))


@given(score=st.integers(-32768, 32767), scale=st.floats(1e-6, 1e3))
def test_a_score_is_rounded_to_nearest_even_saturates_at_mate_and_no_score_stays_none(score: int, scale: float) -> None:
    found = _native.scaled_score(score, scale)
    assert found == (NO_SCORE if score == NO_SCORE else max(-32000, min(32000, round(score * scale))))


@pytest.mark.parametrize("scale", [2.08, 0.5, 1000.0, 1e-3])
@pytest.mark.parametrize("name", UNITS)
def test_scores_of_every_format_are_multiplied(name: str, scale: float, files: dict[str, Path]) -> None:
    plain = scores(CONFIG, identify([files[name]]))
    expected = [s if s == NO_SCORE else max(-32000, min(32000, round(s * scale))) for s in map(int, plain)]
    assert scores(CONFIG, scaled([files[name]], scale)).tolist() == expected
    assert len(set(plain.tolist())) > 100
    assert Data(CONFIG).score_unit(*identify([files[name]])) == UNITS[name]


def test_a_file_of_another_scale_has_its_own_and_the_filters_see_the_scaled_score(files: dict[str, Path]) -> None:
    plain, other = identify([files["games.binpack"], files["p.bf"]])
    both = scores(CONFIG, [plain, replace(other, score_scale=0.5)], 16)
    assert both[:512].tolist() == scores(CONFIG, [plain]).tolist()
    assert both[512:].tolist() == scores(CONFIG, [replace(other, score_scale=0.5)]).tolist()
    low = CONFIG.model_copy(
        update={
            "settings": None,
            "chess": CONFIG.settings.model_copy(update={"filters": FilterConfig(where="score > 300")}),
        }
    )
    found = scores(low, scaled([files["p.bf"]], 0.5), 1)
    assert found.min() > 300
    assert 2 * found.min() > 600


def test_a_scale_of_one_changes_nothing_and_a_share_and_a_scale_go_together(files: dict[str, Path]) -> None:
    entries = [
        {"files": str(files["games.binpack"]), "share": 1},
        {"files": [str(files["p.bf"])], "share": 3, "score_scale": 0.5},
    ]
    paths, known = find_entry_files(parse_train_files(entries), "data.train")
    found = apply_entry_settings(identify(paths), known, "data.train")
    assert [(file.component.share, file.score_scale) for file in found if file.component] == [(1, 1.0), (3, 0.5)]
    assert len(scores(CONFIG, found)) == 512


@pytest.mark.parametrize(
    ("given_entries", "complaint"),
    [
        ([{"files": "a", "score_scale": 0}], "entry 1: score_scale: input should be greater than 0, not 0"),
        ([{"files": "a", "score_scale": -1.0}], "entry 1: score_scale: input should be greater than 0"),
        ([{"files": "a", "score_scale": math.inf}], "entry 1: score_scale: input should be"),
        ([{"files": "a", "score_scale": "2"}], "entry 1: score_scale: input should be a valid number, not '2'"),
        ([{"files": "a", "scale": 2.0}], "entry 1: unknown key scale; allowed here: files, "),
        ([{"score_scale": 2.0}], "entry 1: files is missing"),
        (["a", {"files": "b", "score_scale": 2.0}, 3], "entry 3: must be a table"),
    ],
)
def test_an_entry_that_can_not_be_read_is_named(given_entries: list[object], complaint: str) -> None:
    for parse in (parse_train_files, parse_validation_files):
        with pytest.raises(ValueError, match=complaint):
            parse(given_entries)


def test_shares_are_of_all_entries_and_of_training_only() -> None:
    with pytest.raises(ValueError, match="entry 2: share is missing, and other entries have one"):
        parse_train_files([{"files": "a", "share": 1}, {"files": "b", "score_scale": 2.0}])
    with pytest.raises(ValueError, match="entry 1: unknown key share; allowed here: files, score_scale"):
        parse_validation_files([{"files": "a", "share": 1}])


def test_a_file_has_one_scale(files: dict[str, Path], tmp_path: Path) -> None:
    name = str(files["p.bf"])
    with pytest.raises(ValueError, match="is in entry 1 and entry 2: a file has one score_scale"):
        find_entry_files(parse_train_files([name, {"files": name, "score_scale": 2.0}]), "data.train")
    assert len(find_entry_files(parse_train_files([name, {"files": name}]), "data.train")[0]) == 2
    with pytest.raises(ValueError, match="is in entry 1 and entry 2: a file has one score_unit"):
        find_entry_files(parse_train_files([name, {"files": name, "score_unit": "internal units"}]), "data.train")
    other = tmp_path / "p.bf"
    other.hardlink_to(name)
    paths, known = find_entry_files(parse_train_files([name, {"files": str(other), "score_scale": 2.0}]), "data.train")
    with pytest.raises(ValueError, match=f"is in entry 1 and entry 2: a file has one score_scale: it is {name}, too"):
        apply_entry_settings(identify(paths), known, "data.train")


def test_an_entry_states_the_unit_of_its_scores(files: dict[str, Path]) -> None:
    path = files["games.binpack"]
    paths, known = find_entry_files(parse_train_files([{"files": str(path), "score_unit": "centipawns"}]), "data.train")
    (file,) = apply_entry_settings(identify(paths), known, "data.train")
    assert Data(CONFIG).score_unit(file) == "centipawns"
    assert scores(CONFIG, [file]).tolist() == scores(CONFIG, identify([path])).tolist()
    (fact,) = (fact for fact in Data.from_paths(CONFIG, [file]).describe() if fact.topic == "score unit")
    assert fact.text == f"centipawns (binpack: {path.name})"
    with pytest.raises(ValueError, match="entry 1: score_unit: input should be 'centipawns' or 'internal units'"):
        parse_train_files([{"files": "a", "score_unit": "pawns"}])


def test_samples_without_scores_can_not_be_scaled(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    config = data_config(source="rows", batch_size=1, rows={"fields": {"x": [0, 5]}, "label": "binary"})
    for validation in (False, True):
        with pytest.raises(ValueError, match=r"score_scale: 2 .*samples of the source rows have no scores"):
            Data.from_paths(config, scaled([tmp_path / "a.svm"], 2.0), 1, validation=validation).open()

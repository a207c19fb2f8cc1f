"""`pool check`: what a run is going to do and to take, and what is said when a real one begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loader.chess.filters import FilterConfig
from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.tools.convert import convert
from loader.files.identity import identify
from loader.stream.data import Data
from loader.stream.sources import data_config
from pool.config.load import parse_config
from pool.process.start import run_data
from pool.supervisor.prepare.data_size import unit_warning
from tests.pool.tasks.chess.stockfish.test_training import validation_losses
from tests.support.paths import ROOT, SAMPLE
from tests.support.runs import STOCKFISH, check, run, run_well

TRAIN = SAMPLE / "train.binpack"
VALIDATION = SAMPLE / "validation.binpack"
NO_EVERY = {key: value for key, value in STOCKFISH.items() if key != "train.validate_every"}


@pytest.mark.runs
def test_the_page_shows_data_model_machine_and_memory(tmp_path: Path) -> None:
    settings = {**NO_EVERY, "pool.devices": ["fake:0", "fake:1"], "train.steps": 6e0, "train.checkpoint_every": 2}
    ended = check(tmp_path / "run", settings)
    assert ended.code == 0, ended.err
    lines = {line[:22].strip(): line[22:] for line in ended.out.splitlines()}
    assert lines["samples of a step"] == "3,072 = 3 x 1,024"
    assert lines["samples of the run"] == "18,432 in 6 steps"
    assert lines["training data"].startswith("1 file, 1 MiB; about 1")
    assert lines["training data"].endswith(" samples after the filters: 0.1 epochs")
    assert lines["validation"] == "1 file, 0 MiB; every 2 steps, 3 x 1,024 samples"
    assert lines["parameters"] == "914,104 in 11 tensors, gradients in 1 bucket"
    assert lines["workers on"] == "fake:0; fake:1"
    assert lines["loader's threads"] == "2"
    assert lines["idle devices"].startswith("1 of 2 devices stand idle at the end of each step")
    assert " are free on the disk of " in lines["checkpoints"]
    assert "together" in ended.out
    assert not (tmp_path / "run").exists()


@pytest.mark.runs
def test_validation_files_alone_mean_a_validation_at_each_checkpoint_and_idle_devices_are_said(tmp_path: Path) -> None:
    settings = {**NO_EVERY, "train.steps": 3, "train.checkpoint_every": 2, "train.batches_per_step": 1}
    ended = run_well(tmp_path / "run", settings)
    assert set(validation_losses(ended)) == {0, 2, 3}
    assert "1 of 2 devices stand idle: train.batches_per_step = 1" in ended.out


def test_a_share_of_the_training_files_validates_as_files_do() -> None:
    tree = {"task": "tests.support.toy", "data": {"validation_share": 0.02}, "train": {"checkpoint_every": 7}}
    assert parse_config(tree, "here").validate_every == 7


@pytest.mark.parametrize(
    ("train", "validation", "every"),
    [
        ({}, [], 0),
        ({}, ["x"], 1000),
        ({"checkpoint_every": 7}, ["x"], 7),
        ({"checkpoint_every": 0, "steps": 70}, ["x"], 70),
        ({"validate_every": 0}, ["x"], 0),
        ({"validate_every": 5}, ["x"], 5),
    ],
)
def test_steps_between_validations(train: dict[str, int], validation: list[str], every: int) -> None:
    tree = {"task": "tests.support.toy", "train": train, "data": {"validation": validation}}
    assert parse_config(tree, "here").validate_every == every


@pytest.mark.parametrize(
    ("filters", "kept"),
    [(FilterConfig(skip_no_score=False), 1.0), (FilterConfig(skip_no_score=False, random_skip=3.0), 0.25)],
    ids=["none", "three of four"],
)
def test_the_samples_of_an_epoch_are_estimated_with_the_filters(filters: FilterConfig, kept: float) -> None:
    found = Data.from_paths(data_config(chess={"filters": filters}), [TRAIN, TRAIN, VALIDATION], 1).samples_per_epoch()
    assert found is not None
    assert 0.85 * 525_000 * kept < found < 1.15 * 525_000 * kept


def test_a_source_that_can_not_estimate_says_so() -> None:
    assert (
        Data(
            data_config(source="synthetic", synthetic={"num_features": 10, "max_active": 2}), seed=1
        ).samples_per_epoch()
        is None
    )


@pytest.mark.runs
@pytest.mark.parametrize(
    ("devices", "exchange"),
    [
        (["cuda:9990", "cuda:9991", "cuda:9992", "cuda:9993"], "auto"),
        (["cuda:9990", "cpu", "cpu"], "host"),
        (["cuda:9990", "cuda:9991", "cuda:9992", "cuda:9993"], "device"),
    ],
)
def test_a_run_on_devices_that_this_machine_lacks_is_shown_as_far_as_it_can_be(
    devices: list[str], exchange: str, tmp_path: Path
) -> None:
    settings = {
        **NO_EVERY,
        "optimizer.name": "pool.optim.Adam",
        "pool.devices": devices,
        "pool.exchange": exchange,
        "train.batches_per_step": 2,
    }
    ended = check(tmp_path / "run", settings)
    assert ended.code == 69
    assert ended.err.startswith("pool: pool.devices: 'cuda:9990': this machine shows ")
    assert len(ended.err.splitlines()) == 1
    lines = {line[:22].strip(): line[22:] for line in ended.out.splitlines()}
    assert lines["workers on"].startswith("cuda:9990: not in this machine; ")
    assert lines["idle devices"].startswith(f"{len(devices) - 2} of {len(devices)} devices stand idle")
    assert f"{len(devices) + 4} processes" in ended.out
    assert "together" in ended.out
    assert "learning rate" in lines
    started = run(tmp_path / "run", settings)
    assert (started.code, started.err) == (ended.code, ended.err)


def test_a_device_that_is_no_device_shows_no_page(tmp_path: Path) -> None:
    ended = check(tmp_path / "run", {**NO_EVERY, "pool.devices": ["cuda:x"]})
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.runs
def test_the_page_and_the_start_name_data_files_and_the_units_of_scores_and_mixed_ones_are_said(tmp_path: Path) -> None:
    other = ROOT / "tests/data/vectors/games.viri"
    settings = {
        **NO_EVERY,
        "train.steps": 1,
        "data.train": [str(TRAIN), str(other)],
        "data.validation": [str(VALIDATION)],
    }
    page, start = check(tmp_path / "page", settings).out, run_well(tmp_path / "run", settings).out
    lines = [line.strip() for line in page.splitlines()]
    internal, centipawns = "binpack, scores usually in internal units", "viriformat, scores usually in centipawns"
    for shown in (page, start):
        assert "how your data was read:\n  score unit   usually internal units (binpack: train" in shown
    for named in (f"{TRAIN}, {internal}, 1 MiB", f"{other}, {centipawns}, 0 MiB", f"{VALIDATION}, {internal}, 0 MiB"):
        assert named in lines
    assert "how your data was read:\n" in start
    assert "  score unit   usually internal units (binpack: train.binpack and 1 more)\n" in start
    assert "               usually centipawns (viriformat: games.viri)\n" in start
    assert "  score view   the mover's (binpack: train.binpack and 1 more); material agrees: 9" in start
    warning = (
        "warning: scores are usually centipawns (games.viri), and the task stockfish is for internal units: "
        '{files = "...", score_scale = 3.61} brings an entry to that'
    )
    assert warning in page
    assert warning in start
    scaled = {**settings, "data.train": [str(TRAIN), {"files": [str(other)], "score_scale": 2.08}]}
    page = check(tmp_path / "page", scaled).out
    assert "warning" not in page
    assert f"{centipawns}, multiplied by 2.08" in page
    stated = {**settings, "data.train": [str(TRAIN), {"files": [str(other)], "score_unit": "internal units"}]}
    assert "warning" not in check(tmp_path / "page", stated).out


@pytest.mark.parametrize(
    ("task", "file", "warned"),
    [
        ("stockfish", "a.binpack", False),
        ("stockfish", "a.viri", True),
        ("perspective", "a.viri", False),
        ("perspective", "a.binpack", True),  # as loader generate writes it, of any engine
    ],
)
def test_scores_of_another_unit_than_the_tasks_are_named(task: str, file: str, warned: bool, tmp_path: Path) -> None:
    path = tmp_path / file
    convert(open_sources([VALIDATION]), target_from_name(path), path)
    (entry,) = identify([path])
    config = parse_config({"task": task}, "here")
    warning = unit_warning(task, run_data(config, (entry,), ()))
    assert (warning is not None) == warned
    if warning is not None:
        assert f"({file}), and the task {task} is for " in warning
        scale = float(warning.partition("score_scale = ")[2].partition("}")[0])
        assert scale == pytest.approx({"perspective": 1 / 3.61, "stockfish": 3.61}[task], rel=1e-3)
    assert unit_warning(task, run_data(config, (replace(entry, score_scale=2.0),), ())) is None
    unit = {"perspective": "centipawns", "stockfish": "internal units"}[task]
    assert unit_warning(task, run_data(config, (replace(entry, score_unit=unit),), ())) is None


def test_mixed_units_are_named_for_a_task_that_states_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pool.tasks.chess.stockfish.SCORE_UNIT")
    other = tmp_path / "a.viri"
    convert(open_sources([VALIDATION]), target_from_name(other), other)
    config = parse_config({"task": "stockfish"}, "here")
    files = identify([VALIDATION])
    mixed = "warning: scores of different units are mixed: internal units (validation.binpack) and centipawns (a.viri)"
    assert (unit_warning("stockfish", run_data(config, files, identify([other]))) or "").startswith(mixed)
    assert unit_warning("stockfish", run_data(config, files, ())) is None


def test_many_files_are_not_all_named(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.binpack").symlink_to(VALIDATION)
    settings = {**NO_EVERY, "data.train": [str(tmp_path / "*.binpack")]}
    page = check(tmp_path / "run", settings).out
    assert str(tmp_path / "07.binpack") in page
    assert str(tmp_path / "08.binpack") not in page
    assert "... and 4 more" in page


@pytest.mark.runs
def test_a_resumed_run_keeps_the_scales_of_scores(tmp_path: Path) -> None:
    def settings(scale: float, of_validation: float = 1.0) -> dict[str, object]:
        return {
            **NO_EVERY,
            "train.steps": 1,
            "data.train": [{"files": [str(TRAIN)], "score_scale": scale}],
            "data.validation": [{"files": [str(VALIDATION)], "score_scale": of_validation}],
        }

    first, plain = run_well(tmp_path / "run", settings(0.5)), run_well(tmp_path / "plain", settings(1.0))
    assert first.digest() != plain.digest()
    assert plain.digest() == run_well(tmp_path / "named", {**settings(1.0), "data.train": [str(TRAIN)]}).digest()
    other = run(tmp_path / "run", {**settings(0.25), "train.steps": 2}, "--resume")
    assert other.code == 2
    assert "data.train: score_scale 0.25 (1 file) now, score_scale 0.5 (1 file) in " in other.err
    assert "set score_scale back" in other.err
    none = run(tmp_path / "plain", {**settings(0.25), "train.steps": 2}, "--resume")
    assert "data.train: score_scale 0.25 (1 file) now, no score_scale in " in none.err
    again = run_well(tmp_path / "run", {**settings(0.5, 0.5), "train.steps": 2}, "--resume")
    assert "the best checkpoint is chosen anew" in again.out

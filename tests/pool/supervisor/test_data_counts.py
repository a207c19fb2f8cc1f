"""train.epochs: the steps follow from the samples, counted exactly, whatever the files are like."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loader.exit_codes import EXIT_DATA
from loader.files.identity import Component, DataFile, identify
from loader.stream.data import Data
from loader.stream.sequential import read_in_file_order
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config
from pool.config.load import parse_config
from pool.config.schedule import MAX_STEPS
from pool.config.tree import Config
from pool.errors import ConfigError, RunError
from pool.stages.recipe import parse_recipe
from pool.supervisor.prepare.data_counts import epochs_to_steps
from pool.supervisor.resources.signals import StopSignals
from tests.loader.rows.many_rows import FEATURES, make
from tests.support.paths import SAMPLE
from tests.support.runs import run, run_well

ROWS = {"num_features": FEATURES, "label": "binary"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "a.svm"
    path.write_bytes(make(20_003).text)
    return path


@pytest.fixture(scope="module")
def packed(plain: Path) -> Path:
    path = plain.with_name("a.svm.gz")
    path.write_bytes(gzip.compress(plain.read_bytes(), 1))
    return path


def tree(path: Path, **train: Any) -> dict[str, Any]:
    return {
        "task": "clicks",
        "data": {"source": "rows", "train": [str(path)], "batch_size": 100, "rows": ROWS},
        "model": {"fields": {"features": FEATURES}},
        "train": {"batches_per_step": 3, **train},
    }


def config(path: Path, **train: Any) -> Config:
    return parse_config(tree(path, **train), "a.toml")


def steps_for(settings: Config, files: Sequence[DataFile], signals: StopSignals | None = None) -> tuple[Config, str]:
    return epochs_to_steps(settings, Data(settings.data, tuple(files), settings.run.seed), signals)


def samples_of_first_pass(stream: Any) -> int:
    """Takes batches of one sample until the second pass begins."""
    with closing(stream):
        stream.attach(allocate_slots(stream.schema, 4))
        for slot in range(4):
            stream.give(slot)
        count = 0
        while True:
            if (filled := stream.take()) is None:
                continue
            if filled.cursor.epoch:
                return count
            count += 1
            stream.give(filled.slot)


def test_rows_are_counted_plain_or_packed(plain: Path, packed: Path) -> None:
    used = data_config(source="rows", batch_size=100, rows=ROWS)
    assert (
        Data.from_paths(used, [plain], 1).count_samples()
        == Data.from_paths(used, [packed], 1).count_samples()
        == 20_003
    )
    assert Data.from_paths(used, [plain, packed, plain], 1).count_samples() == 60_009
    drawn = data_config(source="rows", rows={**ROWS, "synthetic": {"num_rows": 77}})
    assert Data(drawn, seed=1).count_samples() == Data.from_paths(drawn, [], 1, validation=True).count_samples() == 77


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_each_side_of_a_share_is_counted_exactly(plain: Path, share: float) -> None:
    used = data_config(source="rows", batch_size=1, rows=ROWS, validation_share=share)
    train, held_out = (Data.from_paths(used, [plain], 3, validation=side).count_samples() for side in (False, True))
    assert train + held_out == 20_003
    assert held_out == samples_of_first_pass(Data.from_paths(used, [plain], 3, validation=True).open())


def test_a_share_of_many_chunks_takes_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(make(50).text)
    files = [path] * 20
    used = data_config(source="rows", batch_size=1, rows=ROWS, validation_share=0.4)
    train, held_out = (Data.from_paths(used, files, 3, validation=side).count_samples() for side in (False, True))
    assert (train, held_out) == (12 * 50, 8 * 50)
    assert held_out == samples_of_first_pass(Data.from_paths(used, files, 3, validation=True).open())


def test_positions_are_counted_behind_the_filters() -> None:
    files = [SAMPLE / "validation.binpack"]
    used = data_config(batch_size=512, chess={"filters": {"skip_in_check": True, "skip_captures": True}})
    counted = Data.from_paths(used, files, 1).count_samples()
    assert counted == sum(len(order) for _, order in read_in_file_order(Data(used, identify(files), 1)))
    assert counted < Data.from_paths(data_config(), files, 1).count_samples()


def test_damage_is_left_out_or_told(plain: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.svm"
    bad.write_bytes(b"1 nonsense\n")
    used = data_config(source="rows", rows=ROWS, on_bad_data="skip")
    assert Data.from_paths(used, [plain, bad], 1).count_samples() == 20_003
    with pytest.raises(RunError, match=r"bad\.svm: line 1, column 3: expected a feature number") as caught:
        steps_for(config(plain, epochs=1), identify([plain, bad]))
    assert caught.value.exit_code == EXIT_DATA


@pytest.mark.parametrize(
    ("epochs", "tail", "steps"),
    [(1, "flow", 67), (2, "flow", 134), (3, "flow", 201), (1, "drop", 67), (3, "drop", 200)],
)
def test_steps_are_the_fewest_that_take_every_sample_so_often(plain: Path, epochs: int, tail: str, steps: int) -> None:
    """A step takes 300 samples; 200 whole batches are in a pass of 20,003 rows."""
    settings = config(plain, epochs=epochs)
    settings = settings.model_copy(update={"data": settings.data.model_copy(update={"tail": tail})})
    found, said = steps_for(settings, identify([plain]))
    assert (found.train.steps, found.train.epochs) == (steps, 0)
    assert said == f"train.epochs: {epochs} of 20,003 samples are {steps} steps of 3 x 100"
    assert steps_for(found, identify([plain])) == (found, "")


def component(file: DataFile) -> DataFile:
    return replace(file, component=Component(0, 1.0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: [component(file) for file in files], "train.epochs: entries of data.train have shares, so an"),
        (lambda _: [], "train.epochs: data.train: no file is given"),
    ],
)
def test_what_has_no_epochs_is_told(plain: Path, change: Callable[[list[DataFile]], list[DataFile]], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        steps_for(config(plain, epochs=1), change(list(identify([plain]))))
    assert str(caught.value).startswith(said)


def test_a_half_written_line_does_not_count(plain: Path, tmp_path: Path) -> None:
    growing = tmp_path / "a.svm"
    growing.write_bytes(plain.read_bytes() + b"1 00")
    settings = tree(growing, epochs=1)
    settings["data"]["growing"] = "ignore_new"
    found, _ = steps_for(parse_config(settings, "a.toml"), identify([growing]))
    assert found.train.steps == 67


def test_a_source_that_does_not_count_is_named() -> None:
    toy = {"task": "tests.support.toy", "data": {"source": "synthetic"}, "train": {"epochs": 2}}
    with pytest.raises(ConfigError, match=r"^train\.epochs: the source synthetic does not count its samples"):
        steps_for(parse_config(toy, "a.toml"), [])


@pytest.mark.parametrize(("size", "steps"), [(50_000, "0"), (1, "20,974,665,728")])
def test_no_steps_or_too_many_are_told(plain: Path, size: int, steps: str) -> None:
    settings = tree(plain, epochs=1 << 20, batches_per_step=1)
    settings["data"] |= {"batch_size": size, "tail": "drop"}
    with pytest.raises(ConfigError) as caught:
        steps_for(parse_config(settings, "a.toml"), identify([plain]))
    said = f"train.epochs: 1,048,576 of 20,003 samples are {steps} steps; 1 to {MAX_STEPS:,} are allowed"
    assert str(caught.value) == said


def test_a_signal_ends_the_count(plain: Path) -> None:
    with StopSignals() as signals:
        signals.count = 1
        with pytest.raises(RunError, match="stopped before the first step"):
            steps_for(config(plain, epochs=1), identify([plain]), signals)


def test_epochs_take_the_place_of_steps(plain: Path) -> None:
    one, _ = steps_for(config(plain, epochs=2, steps=10), identify([plain]))
    other, _ = steps_for(config(plain, epochs=2), identify([plain]))
    assert one == other


def test_a_stage_says_its_steps(plain: Path) -> None:
    recipe = {**tree(plain, epochs=2), "stage": [{"name": "first"}]}
    with pytest.raises(ConfigError, match=r"stage 1 \(first\): train\.epochs: a stage says train\.steps"):
        parse_recipe(recipe, (), "a.toml")


def test_a_run_of_epochs_is_that_of_its_steps_and_goes_on_as_it(plain: Path, tmp_path: Path) -> None:
    settings = {
        "task": "clicks",
        "data.source": "rows",
        "data.train": [str(plain)],
        "data.batch_size": 500,
        "data.rows": ROWS,
        "model.fields": {"features": FEATURES},
        "schedule": {"name": "torch.optim.lr_scheduler.LinearLR", "args": {"total_iters": "50%"}},
        "train.batches_per_step": 4,
        "pool.devices": ["cpu"],
    }
    steps = run_well(tmp_path / "steps", {**settings, "train.steps": 21})
    epochs = run_well(tmp_path / "epochs", {**settings, "train.epochs": 2})
    assert "train.epochs: 2 of 20,003 samples are 21 steps of 4 x 500" in epochs.out
    assert epochs.digest() == steps.digest()
    again = run(tmp_path / "epochs", {**settings, "train.epochs": 2}, "--resume")
    assert again.code == 0
    assert "changed since" not in again.out
    assert again.digest() == steps.digest()
    longer = run_well(tmp_path / "epochs", {**settings, "train.epochs": 3}, "--resume")
    assert "changed since the last start: train.steps = 31 (was 21)" in longer.out
    assert longer.metrics()[-1]["step"] == 31

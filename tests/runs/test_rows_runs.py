"""Whole runs on svmlight files: the death of every kind of process changes no bit, however the files are packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from loader.files.identity import identify
from loader.stream.data import Data
from loader.stream.sources import data_config
from tests.loader.rows.many_rows import FEATURES, make
from tests.support.runs import run_well

DEATHS = ["feeder.mid_batch@9=kill", "worker.before_finish@7=kill", "coordinator.after_publish@6=kill"]


@pytest.fixture(scope="module")
def text() -> bytes:
    return make(20_000).text


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_deaths_change_no_bit(text: bytes, tmp_path: Path, packed: bool) -> None:
    file = tmp_path / ("rows.svm.gz" if packed else "rows.svm")
    file.write_bytes(gzip.compress(text, 1) if packed else text)
    settings = {
        "task": "clicks",
        "data.source": "rows",
        "data.rows.num_features": FEATURES,
        "data.rows.label": "binary",
        "data.batch_size": 512,
        "data.train": [str(file)],
        "model.fields": {"features": FEATURES},
        "optimizer.name": "pool.optim.SparseAdam",
        "train.steps": 30,  # more than an epoch
        "train.batches_per_step": 2,
        "pool.snapshot_steps": 4,
        "pool.devices": ["fake:0", "fake:1"],
    }
    if not packed:  # one file for training and validation
        settings |= {"data.validation_share": 0.1, "train.validate_every": 10, "train.validation_batches": 5}
    undisturbed = run_well(tmp_path / "undisturbed", settings)
    disturbed = run_well(tmp_path / "disturbed", {**settings, "testing.crash_points": DEATHS})
    assert disturbed.out.count("restart") >= len(DEATHS)
    assert disturbed.digest() == undisturbed.digest()
    assert ("files are compressed" in undisturbed.out) == packed
    assert ("train.validation_batches: 5 batches of 512, and there are about 2,0" in undisturbed.out) == (not packed)
    losses = [[entry for entry in ended.metrics() if "validation_loss" in entry] for ended in (undisturbed, disturbed)]
    steps = [[entry["step"] for entry in found] for found in losses]
    assert steps[0] == steps[1] == ([] if packed else [0, 10, 20, 30])


def test_the_note_is_about_compressed_files_only(text: bytes, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.svm", tmp_path / "b.svm"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text * 2, 1))
    config = data_config(source="rows")
    (fact,) = Data(config, identify([plain, packed])).describe()
    assert fact.text.startswith(f"{packed.stat().st_size / 1e6:,.1f} MB of files are compressed")
    assert not Data(config, identify([plain])).describe()

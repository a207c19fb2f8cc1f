"""Networks with threats and pawn pairs beside pieces with king buckets, as engines have them in 2026."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pool.commands.main import main
from pool.config.load import parse_config
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.perspective.config import ModelConfig
from pool.tasks.chess.perspective.shape import make_shape
from pool.tasks.chess.positions import PositionBatch, read_positions
from tests.pool.analysis.test_predict import saved
from tests.support.paths import SAMPLE

BUCKETS = [0] * 8 + [1] * 8 + [2] * 16
TABLE = [0] * 10 + [1] * 10 + [2] * 13
FEATURES = "chess768^ + threats + pawn_pairs"
SETTINGS: dict[str, Any] = {
    "task": "perspective",
    "data": {
        "batch_size": 64,
        "threads": 1,
        "chess": {"features": FEATURES, "king_buckets": BUCKETS, "output_buckets": TABLE},
    },
    "model": {"width": 32, "activation": "pairwise", "hidden": [16, 32]},
}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    saved(tmp_path / "run", SETTINGS)
    assert main(["export", str(tmp_path / "run"), "-o", str(tmp_path / "a.bin")]) == 0
    return tmp_path / "a.bin"


def test_relations_have_rows_of_their_own_and_pieces_those_of_the_factoriser() -> None:
    config = parse_config(SETTINGS, "test")
    assert isinstance(config.model, ModelConfig)
    shape = make_shape(config.model)
    assert (shape.num_real, shape.num_virtual) == (3 * 768 + 59_808 + 4_560, 768)
    assert shape.num_inputs == shape.num_real + 16 + 768, "virtual rows begin at a multiple of 64"
    assert shape.tensors["l0f"] == (768, 32), "and files have none of those between"
    rows = shape.virtual_rows()
    assert np.array_equal(rows, np.tile(np.arange(768), 3))
    assert len(rows) == 3 * 768
    floats = {name: np.full(size, 1.0, np.float32) for name, size in shape.tensors.items()}
    merged_floats = shape.merge_factorisers(floats)["l0w"]
    assert (merged_floats[: len(rows)] == 2).all()
    assert (merged_floats[len(rows) :] == 1).all()


def test_the_file_evaluates_as_the_floats_do(exported: Path, tmp_path: Path) -> None:
    network = open_network(exported)
    assert network.inputs == (FEATURES.replace("^", ""), tuple(BUCKETS))
    positions = read_positions([str(SAMPLE / "validation.binpack")], network.inputs, "--data", 500)
    evaluation = network.evaluate(positions)
    pieces = np.array([position.piece_count for position in positions])
    assert np.array_equal(evaluation.bucket, np.array(TABLE)[pieces])
    assert np.array_equal(network.compute_values(PositionBatch.from_positions(positions), 2), evaluation.value)
    words = ["validate", str(exported), str(tmp_path / "run"), "--data", str(SAMPLE / "validation.binpack")]
    assert main(words) == 0


def test_floats_and_integers_differ_by_rounding_alone(exported: Path, tmp_path: Path, capsys: Any) -> None:
    capsys.readouterr()
    words = ["validate", str(tmp_path / "run"), str(exported), "--data", str(SAMPLE / "validation.binpack"), "--json"]
    assert main(words) == 0
    found = capsys.readouterr().out
    differences = [float(line.split('"mean_difference": ')[1].split(",")[0]) for line in found.splitlines()]
    assert min(differences) == 0
    assert max(differences) < 15

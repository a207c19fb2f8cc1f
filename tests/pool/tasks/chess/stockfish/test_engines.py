"""Networks of newer versions against the engines themselves, and their own networks byte for byte.

`make test-engines`: the engines are downloaded (engines/packages.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pool.export.export import export_checkpoint
from pool.tasks.chess.network import Evaluation
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.positions import read_fen
from pool.tasks.chess.stockfish.network import read_network
from pool.tasks.chess.stockfish.nnue_file import read_net, serialize_net, write_net
from pool.tasks.chess.stockfish.versions import VERSIONS
from tests.pool.tasks.chess.stockfish.engines.nets import SUMS, own_net
from tests.pool.tasks.chess.stockfish.engines.running import engine_17, engine_18, values_of_19
from tests.pool.tasks.chess.stockfish.support import Engine, random_net
from tests.pool.tasks.chess.stockfish.test_training import validation_losses
from tests.support.paths import DATA, ROOT
from tests.support.runs import run

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

V16 = VERSIONS["SFNNv16"]


@pytest.fixture(scope="module")
def fens() -> list[str]:
    """400, none in check."""
    return (DATA / "vectors/sf_fens.txt").read_text().split("\n")[:400]


def evaluation(net: Path, fens: list[str]) -> Evaluation:
    network = open_network(net)
    return network.evaluate([read_fen(fen, network.inputs) for fen in fens])


@pytest.mark.parametrize("version", SUMS)
def test_an_engines_own_net_is_read_and_written_byte_for_byte(version: str) -> None:
    content = own_net(version).read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(SUMS[version])
    net = read_net(own_net(version))
    assert (net.version.name, net.l1) == (version, VERSIONS[version].l1)
    assert version != "SFNNv16" or len(content) == 98_511_183
    assert serialize_net(net) == content


def test_the_values_that_stockfish_19_gave_for_its_own_net_are_met(fens: list[str], shared_data: Path) -> None:
    expected = (shared_data / "vectors/sf19_evals_nn-1a298aa575a0.txt").read_text().split()
    assert evaluation(own_net("SFNNv16"), fens).value.tolist() == [int(value) for value in expected]


def test_stockfish_19_agrees_about_its_own_net(fens: list[str]) -> None:
    net = own_net("SFNNv16")
    assert evaluation(net, fens[:300]).value.tolist() == values_of_19(net, fens[:300])


def test_stockfish_19_agrees_about_random_weights_of_the_whole_range(fens: list[str], tmp_path: Path) -> None:
    """Biases and PSQT values are bounded: sums of 32 bits must not overflow."""
    net = random_net(V16.l1, seed=16, version=V16)
    rng = np.random.default_rng(16)
    for name, kind in V16.kinds().items():
        info = np.iinfo(kind)
        if kind is not np.int32:
            net[name][:] = rng.integers(info.min, info.max, net[name].shape, kind, endpoint=True)
    net["psqt_weight"][:] = rng.integers(-(1 << 20), 1 << 20, net["psqt_weight"].shape, np.int32)
    write_net(replace(net, description="random"), tmp_path / "random.nnue")
    found = evaluation(tmp_path / "random.nnue", fens[:300])
    assert found.value.std() > 1000
    assert found.value.tolist() == values_of_19(tmp_path / "random.nnue", fens[:300])


def test_stockfish_19_agrees_about_a_net_trained_here(fens: list[str], tmp_path: Path) -> None:
    settings = {
        "task": "stockfish",
        "data.train": [str(ROOT / "configs/sample/train.binpack")],
        "data.batch_size": 128,
        "data.chess.features": "SFNNv16",
        "model.version": "SFNNv16",
        "optimizer.name": "pool.optim.SparseAdam",
        "optimizer.args.lr": 0.002,
        "train.steps": 200,
        "train.batches_per_step": 1,
        "train.checkpoint_every": 200,
        "pool.devices": ["cpu"],
    }
    ended = run(tmp_path / "run", settings, timeout=500)
    assert ended.code == 0, ended.err
    net = tmp_path / "trained.nnue"
    export_checkpoint(ended.dir, net, "trained", None)
    found = evaluation(net, fens[:300])
    assert found.value.std() > 100
    assert found.value.tolist() == values_of_19(net, fens[:300])


def test_training_learns_and_going_on_from_the_engines_own_net_begins_and_stays_far_below(tmp_path: Path) -> None:
    settings = {
        "task": "stockfish",
        "data.train": [str(ROOT / "configs/sample/train.binpack")],
        "data.validation": [str(ROOT / "configs/sample/validation.binpack")],
        "data.batch_size": 1024,
        "data.chess.features": "SFNNv16",
        "data.chess.filters.skip_in_check": True,
        "data.chess.filters.skip_captures": True,
        "model.version": "SFNNv16",
        "optimizer.name": "pool.optim.Adam",
        "train.validation_batches": 4,
        "train.checkpoint_every": 0,
        "train.batches_per_step": 1,
        "pool.devices": ["cpu"],
    }
    small = {**settings, "model.l1": 64, "optimizer.args.lr": 0.002, "train.steps": 100, "train.validate_every": 100}
    scratch = validation_losses(run(tmp_path / "scratch", small, timeout=300))
    own = {"model.start_from": str(own_net("SFNNv16")), "optimizer.args.lr": 1e-6}
    tuned = validation_losses(
        run(tmp_path / "tuned", {**settings, **own, "train.steps": 2, "train.validate_every": 2}, timeout=300)
    )
    assert scratch[100] < 0.8 * scratch[0]
    assert max(tuned[0], tuned[2]) < 0.6 * scratch[100]


@pytest.mark.parametrize(("version", "start"), [("SFNNv10", engine_18), ("SFNNv9", engine_17)])
def test_every_value_that_18_and_17_1_print_about_their_own_nets_is_met(
    version: str, start: Callable[[], Engine], fens: list[str]
) -> None:
    """They print hundredths of pawns, of all buckets, and can't be given another net."""
    chosen = fens[:100]
    network = read_network(own_net(version), None)
    positions = [read_fen(fen, network.inputs) for fen in chosen]
    found = network.evaluate(positions)
    units = network.pawn_units(positions)
    with start() as engine:
        for i, fen in enumerate(chosen):
            printed = engine.printed_eval(fen)
            assert printed is not None
            assert printed.used == found.bucket[i]
            terms = zip(_cut(found.terms["psqt"][i]), _cut(found.terms["positional"][i]), strict=True)
            expected = [[_cell(value, units[i]) for value in (a, b, a + b)] for a, b in terms]
            assert [[cell.strip() for cell in row] for row in printed.cells] == expected, fen


def _cut(values: npt.NDArray[np.int64]) -> list[int]:
    return [int(value) for value in np.trunc(values / 16)]


def _cell(value: int, units: float) -> str:
    hundredths = int(np.floor(100 * abs(value) / units + 0.5))
    sign = "+" if value > 0 else "-" if value < 0 else " "
    return f"{sign}{hundredths / 100:6.2f}".strip()

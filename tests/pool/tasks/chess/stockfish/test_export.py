"""A .nnue file gets its name once it is read back as the network it was made of; the order of its pairs is free."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pool.commands.main import PROGRAM
from pool.tasks.chess.proof import probe_positions
from pool.tasks.chess.stockfish import create_task, network
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.network import StockfishNetwork, write_network
from pool.tasks.chess.stockfish.nnue_file import Net, read_net, serialize_net
from pool.tasks.chess.stockfish.task import StockfishTask
from pool.tasks.chess.stockfish.versions import VERSIONS
from pool.tasks.chess.training.config import LossConfig
from tests.pool.tasks.chess.stockfish.support import V5, random_net, same_net
from tests.support.paths import SAMPLE


def changed(name: str, by: int) -> Callable[[Net], bytes]:
    def serialize(net: Net) -> bytes:
        array = net[name].copy()
        array.flat[-1] += by
        return serialize_net(replace(net, arrays={**net.arrays, name: array}))

    return serialize


@pytest.mark.parametrize(
    ("serialize", "said"),
    [
        (changed("fc_2_bias", 1 << 20), "of 64 positions evaluate to something else with its file than with the netw"),
        (changed("transformer_weight", 1), "transformer_weight: other numbers in the file than in the network"),
        (lambda net: serialize_net(net)[:-1], "what is written can't be read back, at offset .*: the file ends inside"),
    ],
)
def test_a_file_that_is_not_the_network_is_not_kept(
    serialize: Callable[[Net], bytes], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what it would have replaced nothing is lost."""
    (tmp_path / "x.nnue").write_bytes(b"before")
    monkeypatch.setattr(network, "serialize_net", serialize)
    with pytest.raises(ValueError, match=said):
        write_network(StockfishNetwork(random_net(16, seed=1)), tmp_path / "x.nnue")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


@pytest.mark.parametrize("name", VERSIONS)
def test_every_version_of_any_width_is_read_back(name: str, tmp_path: Path) -> None:
    """Also where the file can't say which of several versions it is."""
    net = random_net(8, seed=2, version=VERSIONS[name])
    write_network(StockfishNetwork(net), tmp_path / "x.nnue")
    again = read_net(tmp_path / "x.nnue")
    assert same_net(replace(again, version=net.version), net)
    assert (again.version is V5) == (name == "SFNNv5")


def planted(name: str) -> tuple[StockfishTask, StockfishModel]:
    """Neighbours have nothing in common, pairs that lie 4 apart are 0 together."""
    task = create_task(
        ModelConfig.model_validate({"version": name, "l1": 32, "factorized": name == "SFNNv16"}), LossConfig()
    )
    model = task.build_model()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        weight = model.transformer.weight
        weight.copy_(torch.randn(len(weight), 4, generator=generator).repeat(1, 8) * 0.2)
        model.stacks.fc_0_weight.normal_(0, 0.3, generator=generator)
    return task, model


@pytest.mark.parametrize("name", ["SFNNv5", "SFNNv16"])
def test_another_order_of_pairs_makes_blocks_zero_and_nothing_else(name: str) -> None:
    task, model = planted(name)
    before = task.network(model)
    said = task.reorder(model, [str(SAMPLE / "validation.binpack")])
    after = task.network(model)
    shares = [float(share) for share in re.findall(r"([\d.]+)%", said)]
    assert shares[1] > 1.5 * shares[0] > 0
    assert not np.array_equal(after.net["transformer_weight"], before.net["transformer_weight"])
    assert not np.array_equal(after.net["fc_0_weight"], before.net["fc_0_weight"])
    positions = probe_positions(before.inputs)
    assert np.array_equal(after.evaluate(positions).values, before.evaluate(positions).values)
    for one, other in ((after, before), (before, after)):
        assert {*map(tuple, one.net["transformer_weight"].T)} == {*map(tuple, other.net["transformer_weight"].T)}


def test_an_order_that_changes_the_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task, model = planted("SFNNv5")
    monkeypatch.setattr(StockfishModel, "reorder_pairs", lambda model, _: model.transformer.weight.data.neg_())
    with pytest.raises(ValueError, match="positions evaluate to something else with its pairs in another order than"):
        task.reorder(model, [str(SAMPLE / "validation.binpack")])


def test_permute_says_what_it_gains_and_what_it_can_not_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_network(StockfishNetwork(random_net(16, seed=1)), tmp_path / "x.nnue")
    assert PROGRAM.main(["convert", str(tmp_path / "x.nnue"), "-o", str(tmp_path / "run")]) == 0
    export = ["export", str(tmp_path / "run"), "-o", str(tmp_path / "y.nnue"), "--permute"]
    assert PROGRAM.main([*export, str(SAMPLE / "validation.binpack")]) == 0
    out = capsys.readouterr().out
    assert "blocks of 4 inputs that are 0: " in out
    assert PROGRAM.main([*export[:-2], str(tmp_path / "z.nnue"), "--permute", str(tmp_path / "none")]) == 2
    assert "--permute: no file matches" in capsys.readouterr().err
    assert not (tmp_path / "z.nnue").exists()

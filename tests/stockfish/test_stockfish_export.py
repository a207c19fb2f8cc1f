"""A .nnue file gets its name once it is read back as the network it was made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pool.tasks.stockfish import networks
from pool.tasks.stockfish.networks import StockfishNetwork, write_network
from pool.tasks.stockfish.quantized.nnue_file import Net, read_net, serialize_net
from pool.tasks.stockfish.quantized.versions import VERSIONS
from tests.stockfish.support import V5, random_net, same_net


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
    monkeypatch.setattr(networks, "serialize_net", serialize)
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

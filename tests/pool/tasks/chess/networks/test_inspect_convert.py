"""`pool inspect` and `pool convert`: what a net is, and a checkpoint made of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pool.commands.main import PROGRAM
from pool.tasks.chess.stockfish.nnue_file import Net, read_net, write_net
from pool.tasks.chess.stockfish.versions import VERSIONS
from tests.pool.tasks.chess.stockfish.support import random_net

V16 = VERSIONS["SFNNv16"]


@pytest.fixture
def net() -> Net:
    net = random_net(16, seed=1, version=V16)
    net["fc_0_weight"][:, :, 16:] = 0  # padding that nothing reads is not kept
    return net


def inspected(net: Net, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    write_net(net, folder / "x.nnue")
    assert PROGRAM.main(["inspect", str(folder / "x.nnue"), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_inspect_says_version_ranges_and_what_is_clipped(
    net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net["threat_weight"][:2, 0] = [127, -127]
    net["threat_weight"][2:, :] = 1
    net["threat_weight"][:2, 1:] = 1
    found = inspected(net, tmp_path, capsys)
    assert (found["about"]["version"], found["about"]["outputs of the first layer"]) == ("SFNNv16", 16)
    tensors = {tensor["name"]: tensor for tensor in found["tensors"]}
    assert set(tensors) == set(V16.shapes(16))
    threats = tensors["threat_weight"]
    assert (threats["smallest"], threats["largest"], threats["used"], threats["clipped"]) == (-127, 127, 1.0, 2)
    assert threats["shape"] == [59808, 16]
    assert tensors["transformer_weight"]["clipped"] == 0
    assert tensors["transformer_weight"]["used"] == pytest.approx(30 / 32767, rel=0.01)


def test_inspect_counts_outputs_that_nothing_can_wake(
    net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in V16.tables:
        net[table.weight][:, 3] = 1 if table.first == 0 else -1
    net["transformer_bias"][3] = -32  # as many pieces as there can be
    net["fc_1_weight"][5, 6] = -1
    net["fc_1_bias"][5, 6] = 63  # cut to 0
    before = inspected(net, tmp_path, capsys)["dead"]
    net["transformer_bias"][3] = -31
    net["fc_1_bias"][5, 6] = 64
    after = inspected(net, tmp_path, capsys)["dead"]
    assert before == {"the first layer": [1, 16], "fc_1": [1, 256]}
    assert after == {"the first layer": [0, 16], "fc_1": [0, 256]}


def test_inspect_prints_a_line_a_tensor(net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_net(net, tmp_path / "x.nnue")
    assert PROGRAM.main(["inspect", str(tmp_path / "x.nnue")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "version: SFNNv16"
    assert "which loads 1024 outputs only" in lines[1]
    assert {line.split()[0] for line in lines if " int" in line} == set(V16.shapes(16))


def test_a_converted_net_is_exported_as_it_was(net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_net(net, tmp_path / "x.nnue")
    command = ["convert", str(tmp_path / "x.nnue"), "--to", "checkpoint", "-o", str(tmp_path / "run")]
    assert PROGRAM.main(command) == 0
    assert capsys.readouterr().out.startswith(str(tmp_path / "run" / "checkpoints"))
    export = ["export", str(tmp_path / "run"), "-o", str(tmp_path / "y.nnue")]
    assert PROGRAM.main(export) == 0
    assert (tmp_path / "y.nnue").read_bytes() == (tmp_path / "x.nnue").read_bytes()
    capsys.readouterr()
    for again, remedy in ((command, "remove it first"), (export, "--force to replace it")):
        assert PROGRAM.main(again) == 2
        assert re.search(f"is there already; give another name, or {remedy}", capsys.readouterr().err)
    assert PROGRAM.main([*export, "--force", "--description", "mine"]) == 0
    assert read_net(tmp_path / "y.nnue").description == "mine"


def test_a_description_of_any_bytes_comes_back(net: Net, tmp_path: Path) -> None:
    description = bytes(range(256)).decode("utf-8", "surrogateescape")
    write_net(replace(net, description=description), tmp_path / "x.nnue")
    assert PROGRAM.main(["convert", str(tmp_path / "x.nnue"), "-o", str(tmp_path / "run")]) == 0
    assert PROGRAM.main(["export", str(tmp_path / "run"), "-o", str(tmp_path / "y.nnue")]) == 0
    assert (tmp_path / "y.nnue").read_bytes() == (tmp_path / "x.nnue").read_bytes()


@pytest.mark.parametrize("name", ["y.nnue", "y.bin", "y.pt"])
def test_a_checkpoint_gets_no_name_of_a_networks_file(
    name: str, net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_net(net, tmp_path / "x.nnue")
    assert PROGRAM.main(["convert", str(tmp_path / "x.nnue"), "-o", str(tmp_path / name)]) == 2
    assert f"then pool export FOLDER -o {name}\n" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["y.onnx", "y.bin", "y.nnue.pt", "y.v2"])
def test_a_network_gets_no_name_of_another_format(
    name: str, net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_net(net, tmp_path / "x.nnue")
    assert PROGRAM.main(["convert", str(tmp_path / "x.nnue"), "-o", str(tmp_path / "run")]) == 0
    assert PROGRAM.main(["export", str(tmp_path / "run"), "-o", str(tmp_path / name)]) == 2
    assert "files of the task stockfish end in .nnue" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_integers_that_floats_can_not_hold_are_not_converted(
    net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net["psqt_weight"][0, 0] = 1 << 30
    write_net(replace(net, description=""), tmp_path / "x.nnue")
    assert PROGRAM.main(["convert", str(tmp_path / "x.nnue"), "-o", str(tmp_path / "run")]) != 0
    assert "psqt_weight: 1 of 180224 values are too large" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

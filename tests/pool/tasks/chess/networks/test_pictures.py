"""Pictures of networks: what is drawn where, and one line where it can't be."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pool.commands.main import PROGRAM
from pool.tasks.chess.network import summarize_tensor
from pool.tasks.chess.networks.pictures import _borders, as_board, beside_one_another, masked
from pool.tasks.chess.perspective import LossConfig, ModelConfig, create_task
from pool.tasks.chess.positions import read_fen
from pool.tasks.chess.quantization import Rounding
from pool.tasks.chess.stockfish.network import StockfishNetwork
from pool.tasks.chess.stockfish.nnue_file import write_net
from tests.pool.tasks.chess.perspective.support import FACTORISED, RUNGS
from tests.pool.tasks.chess.stockfish.support import random_net
from tests.support.paths import SAMPLE

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
needs_matplotlib = pytest.mark.skipif(not HAS_MATPLOTLIB, reason="no matplotlib (pip install 'sparsepool[pictures]')")

WHITE_KING_G1 = "4k3/8/8/2n5/8/8/P7/6K1 w - - 0 1"  # pawn a2, knight c5


def stockfish_boards() -> tuple[Any, Any]:
    network = StockfishNetwork(random_net(8, seed=1))
    return network, network.boards()


def perspective_boards() -> tuple[Any, Any]:
    task = create_task(ModelConfig(**FACTORISED), LossConfig())
    network = task.network(task.build_model())
    return network, network.boards()


@pytest.mark.parametrize(
    ("make", "king_file", "flipped"), [(stockfish_boards, 2, 0), (perspective_boards, 1, 7)], ids=["sf", "bullet"]
)
def test_boards_say_which_row_a_piece_on_a_square_has(
    make: Callable[[], tuple[Any, Any]], king_file: int, flipped: int
) -> None:
    """The rows of a position are those of its pieces under the bucket of its king; g1 is the third of the files e to h,
    and mirrored the second of a to d."""
    network, boards = make()
    table = network.tensors["transformer_weight" if "transformer_weight" in network.tensors else "l0w"]
    rows = {tuple(table[row]) for row in read_fen(WHITE_KING_G1, network.inputs).own}
    bucket = boards.kings[0][king_file]
    for piece, square in (("own pawn", 8), ("other knight", 34)):
        drawn = boards.weights[bucket, list(boards.pieces).index(piece), square ^ flipped]
        assert tuple(drawn) in rows
    assert len(boards.kings) == 8
    assert {len(rank) for rank in boards.kings} == {4}


def test_a_board_has_white_at_the_bottom_and_no_pawns_at_the_ends() -> None:
    squares = masked("own pawn", np.arange(64))
    board = as_board(squares)
    assert np.isnan(board[[0, 7]]).all()
    assert board[6].tolist() == list(range(8, 16))
    image = beside_one_another([[board, board], [board, board]])
    assert image.shape == (17, 17)
    assert np.isnan(image[8]).all()
    assert image[6, :8].tolist() == image[6, 9:].tolist() == list(range(8, 16))


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (np.array([-127, 0, 5, 127], np.int8), Rounding(64, np.int8, -127, 127)),
        (np.array([-3, 0, 700], np.int16), Rounding(255, np.int16)),
        (np.array([0, 0], np.int32), Rounding(9600, np.int32)),
        (np.array([-(1 << 31), (1 << 31) - 1], np.int32), Rounding(9600, np.int32)),
    ],
)
def test_every_integer_is_in_one_bar_of_its_histogram(values: Any, rule: Rounding) -> None:
    borders, _ = _borders(summarize_tensor("x", values, rule))
    assert (np.diff(borders) >= 1).all()
    assert np.histogram(values, borders)[0].sum() == values.size


@needs_matplotlib
@pytest.mark.parametrize("what", ["stockfish", "layers"])
def test_pictures_of_every_family_are_written(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = tmp_path / "x.nnue" if what == "stockfish" else tmp_path / "x.bin"
    if what == "stockfish":
        write_net(random_net(8, seed=1), net)
    else:
        task = create_task(ModelConfig(**RUNGS[what]), LossConfig())
        task.export(task.build_model(), net, "")
    (tmp_path / "x.epd").write_text(WHITE_KING_G1)
    command = ["inspect", str(net), "--pictures", str(tmp_path / "p"), "--positions", str(tmp_path / "x.epd"), "--json"]
    assert PROGRAM.main(command) == 0
    pictures = json.loads(capsys.readouterr().out)["pictures"]
    expected = {"histograms", "first-layer", "outputs", "zeros"} | ({"psqt"} if what == "stockfish" else set())
    assert {Path(path).stem for path in pictures} == expected
    assert sorted(pictures) == sorted(str(path) for path in (tmp_path / "p").iterdir())
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_what_can_not_be_drawn_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = tmp_path / "x.nnue"
    write_net(random_net(8, seed=1), net)
    assert PROGRAM.main(["inspect", str(net), "--positions", str(SAMPLE / "validation.binpack")]) == 2
    assert capsys.readouterr().err.endswith("inspect: --positions is for --pictures DIR\n")
    if HAS_MATPLOTLIB:
        assert PROGRAM.main(["inspect", str(net), "--pictures", str(net)]) == 1
        assert capsys.readouterr().err.endswith("x.nnue: File exists\n")
    monkeypatch.setattr("loader.pictures.importlib.util.find_spec", lambda _: None)
    assert PROGRAM.main(["inspect", str(net), "--pictures", str(tmp_path / "p")]) == 2
    said = capsys.readouterr().err
    assert said.endswith("--pictures: needs matplotlib, which is not installed: pip install 'sparsepool[pictures]'\n")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "p").exists()

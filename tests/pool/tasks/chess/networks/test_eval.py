"""`pool eval`: the same integers for programs and people, and one clear line for what is wrong (I8)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pool.tasks.chess.positions import Inputs, read_fen, read_listed_positions
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.nnue_file import Net, write_net
from tests.pool.tasks.chess.stockfish.support import (
    expected_integers,
    expected_print,
    random_net,
    sample_fens,
    slow_position,
)
from tests.support.warm import call_pool

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
BARE = "4k3/8/8/8/8/8/8/3QK3 w - -"


@pytest.fixture(scope="module")
def net() -> Net:
    return random_net(32, seed=1)


@pytest.fixture(scope="module")
def net_file(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "random.nnue"
    write_net(net, path)
    return path


def pool_eval(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_pool("eval", *arguments)


def objects(run: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_features_of_a_fen_are_those_of_the_slow_computation() -> None:
    for fen in sample_fens(200):
        found, expected = read_fen(fen, Inputs("HalfKAv2_hm")), slow_position(fen)
        assert sorted(found.own.tolist()) == sorted(expected.own.tolist())
        assert sorted(found.opponent.tolist()) == sorted(expected.opponent.tolist())
        assert found.piece_count == expected.piece_count


@pytest.mark.engine
def test_eval_gives_the_engines_integers_for_400_positions(engine_net: Path, shared_data: Path, tmp_path: Path) -> None:
    fens, expected = expected_integers(shared_data)
    (tmp_path / "x.epd").write_text("\n".join(fens))
    found = objects(pool_eval(engine_net, "--epd", tmp_path / "x.epd", "--json"))
    assert [line["fen"] for line in found] == fens
    keys = ("bucket", "psqt", "positional", "value")
    numbers = [np.hstack([cast(Any, line[key]) for key in keys]) for line in found]
    assert np.array_equal(np.array(numbers), expected)


def test_json_lines_are_the_evaluators_integers(net: Net, net_file: Path) -> None:
    found = objects(pool_eval(net_file, "--fen", "startpos", "--fen", BARE, "--json"))
    expected = evaluate(net, [slow_position(START), slow_position(BARE + " 0 1")])
    for i, fen in enumerate((START, BARE)):
        assert found[i] == {
            "fen": fen,
            "bucket": int(expected.bucket[i]),
            "psqt": expected.psqt[i].tolist(),
            "positional": expected.positional[i].tolist(),
            "value": int(expected.value[i]),
        }


def test_plain_output_is_one_line_a_position_under_one_header(net: Net, net_file: Path, tmp_path: Path) -> None:
    fens = [f"{BARE} 0 1", "4k3/8/8/8/8/8/8/3QK3 b - - 0 1", START]
    (tmp_path / "x.epd").write_text(f'{fens[0]} id "queen";\n{fens[1]}\n{fens[2]}\n')
    run = pool_eval(net_file, "--epd", tmp_path / "x.epd")
    units, header, *lines = run.stdout.splitlines()
    assert "White's view" in units
    assert "361 = one pawn" in units
    assert header.split() == ["pawns", "units", "position"]
    expected = evaluate(net, [slow_position(fen) for fen in fens])
    names = ["queen", *fens[1:]]
    for i, line in enumerate(lines):
        pawns = expected_print(expected, i, " b " in fens[i]).evaluation
        assert line.split(maxsplit=2) == [pawns, f"{int(expected.value[i]):+}", names[i]]
    assert len(lines) == 3
    assert run.stderr == ""


def test_with_buckets_every_bucket_is_shown_and_the_one_in_use_marked(net: Net, net_file: Path) -> None:
    run = pool_eval(net_file, "--fen", START, "--fen", BARE, "--buckets")
    expected = evaluate(net, [slow_position(START)])
    lines = run.stdout.splitlines()
    assert "sixteenths" in lines[0]
    assert run.stdout.count("sixteenths") == 1
    assert lines[2] == START
    assert lines[3].split() == ["bucket", "psqt", "positional", "value"]
    value = int(expected.value[0])
    assert lines[11].split() == ["7", "*", str(expected.psqt[0, 7]), str(expected.positional[0, 7]), str(value)]
    assert lines[12] == f"value {value}"
    assert lines[14] == BARE
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("operations", "id"),
    [
        ('bm Qd8; id "x 1 2";', "x 1 2"),
        ('id "no semicolon"', "no semicolon"),
        ("id bare; bm Qd8;", "bare"),
        ('c0 "id 7; id 8"; id "9";', "9"),
        ('3 17 id "after counters";', "after counters"),
        ('id "\x1b[2J\x9b";', "?[2J?"),
        ('identity "x";', ""),
        ("", ""),
    ],
)
def test_the_id_of_an_epd_line_is_kept(operations: str, id: str, tmp_path: Path) -> None:
    (tmp_path / "x.epd").write_text(f"{BARE} {operations}\n")
    (found,) = read_listed_positions(tmp_path / "x.epd", Inputs("HalfKAv2_hm"))
    assert found.id == id


def test_operations_and_counters_of_an_epd_line_are_told_apart(net_file: Path, tmp_path: Path) -> None:
    lines = [f'{BARE} bm Qd8; id "x 1 2";', "", f"{BARE} 3 17 bm Qd8;", f"\t{BARE}  ", f"{START} c0 \xff;"]
    (tmp_path / "x.epd").write_bytes("\r\n".join(lines).encode("latin-1"))
    found = objects(pool_eval(net_file, "--epd", tmp_path / "x.epd", "--json"))
    assert [line["fen"] for line in found] == [BARE, f"{BARE} 3 17", BARE, START]
    assert [line.get("id") for line in found] == ["x 1 2", None, None, None]


def test_what_is_wrong_is_one_line_and_an_exit_code(net_file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.epd"
    bad.write_text(f"{BARE}\n\n4k3/9/8/8/8/8/8/3QK3 w - -\n")
    other = tmp_path / "other.nnue"
    other.write_bytes(b"\0" * 5000)
    cases: list[tuple[tuple[str | Path, ...], int, str]] = [
        ((net_file,), 2, "give either --fen (once or more) or --epd FILE"),
        ((net_file, "--fen", BARE, "--epd", bad), 2, "give either --fen"),
        ((net_file, "--fen", BARE, "--json", "--buckets"), 2, "--json has all buckets already"),
        ((net_file, "--fen", "no position"), 2, "--fen: FEN 'no position'"),
        ((net_file, "--fen", "a\nb"), 2, "--fen: FEN 'a b'"),
        ((net_file, "--epd", bad), 65, f"{bad}: line 3: FEN '4k3/9/8"),
        ((net_file, "--epd", other), 65, f"{other}: line 1: is not text"),
        ((net_file, "--epd", tmp_path), 65, f"{tmp_path}: can't be read: Is a directory"),
        ((tmp_path / "missing.nnue", "--fen", BARE), 65, "missing.nnue: can't be read: No such file"),
        ((other, "--fen", BARE), 65, f"{other}: offset 0: not a .nnue file: version 0x00000000"),
    ]
    for arguments, code, message in cases:
        run = pool_eval(*arguments)
        assert run.returncode == code, run.stderr
        assert message in run.stderr
        assert run.stderr.count("\n") == 1
        assert run.stdout == ""

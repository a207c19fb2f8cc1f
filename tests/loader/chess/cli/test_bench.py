"""`loader bench`: rates of the whole stream, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_bench_gives_rates_as_one_json_object(game_files: list[Path], capsys: Capture) -> None:
    arguments = ["bench", *map(str, game_files), "--json", "--seconds", "0.1", "--batch-size", "500"]
    assert main([*arguments, "--threads", "1", "--skip-captures", "--random-skip", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)
    assert result["files"] == list(map(str, game_files))
    assert (result["features"], result["batch_size"], result["threads"]) == ("HalfKAv2_hm", 500, 1)
    assert result["batches"] >= 1
    assert result["read"] > result["kept"] > 0
    assert result["batched"] == pytest.approx(result["batches"] * 500 / result["seconds"])
    # Rows and columns of two bags of 2 to 32 features in two bytes each, and some offsets.
    assert 20 < result["bytes_per_position"] < 2 * 2 * 32 * 2 + 40


def test_bench_shows_a_table(game_files: list[Path], capsys: Capture) -> None:
    assert main(["bench", str(game_files[0]), "--seconds", "0", "--batch-size", "100", "--features", "chess768"]) == 0
    out = capsys.readouterr().out
    for name in ("chess768", "read", "kept", "batched", "written"):
        assert name in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{good}", "--features", "HalfKP"], 2, "'HalfKP' is none of"),
        (["{good}", "--threads", "0"], 2, "--threads"),
        (["{bad}"], 1, "bad.binpack: offset 0: expected a chunk, which begins with b'BINP'"),
        (["{good}", "--skip-ply-up-to", "20000"], 1, "no entry passes the filters"),
        (
            ["{moveless}", "--skip-captures"],
            2,
            "skip_captures: it needs the move, which files in bulletformat do not have",
        ),
    ],
)
def test_bench_ends_in_one_clear_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, game_files: list[Path], tmp_path: Path, capsys: Capture
) -> None:
    bad = tmp_path / "bad.binpack"
    bad.write_bytes(b"not a binpack")
    moveless = tmp_path / "moveless.bf"
    assert main(["convert", str(game_files[0]), "-o", str(moveless), "--lossy"]) == 0
    capsys.readouterr()
    assert main(["bench", *(word.format(good=game_files[0], bad=bad, moveless=moveless) for word in arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err

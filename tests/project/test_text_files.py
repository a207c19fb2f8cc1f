"""Every text file that a user may give is read with a byte order mark as without one; what is no UTF-8 is one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.chess.cli.inspect_options import parse_king_buckets
from loader.chess.engines.book import read_book
from loader.chess.filters.viriformat import rules_of_file
from loader.cli.main import main as loader
from loader.errors import DataError
from pool.config.load import load_config
from pool.tasks.chess.positions import Inputs, read_listed_positions

KINGS = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
Read = Callable[[Path, Any], Any]


def printed(*words: str) -> Read:
    """Runs `loader dump` on the file; returns what it says."""

    def read(path: Path, capture: pytest.CaptureFixture[str]) -> str:
        code = loader(["dump", str(path), *words])
        out, err = capture.readouterr()
        if code:
            raise ValueError(err)
        return out

    return read


TEXTS: dict[str, tuple[str, str, Read]] = {
    "positions": ("x.txt", f"{KINGS} | 1 | 0.5\n", printed()),
    "positions, by content": ("x", f"{KINGS} | 1 | 0.5\n", printed()),
    "svmlight": ("x.svm", "1 3:1\n0 2:1\n", printed()),
    "CSV": ("x.csv", "label,c\n1,red\n", printed()),
    "a book of FENs": ("x.epd", f"{KINGS}\n", lambda path, _: read_book(path).positions),
    "a book of games": ("x.pgn", '[Event "x"]\n\n1. e4 *\n', lambda path, _: read_book(path).positions),
    "positions to evaluate": (
        "x.epd",
        f'{KINGS[:-4]} id "a";\n',
        lambda path, _: [(each.fen, each.id) for each in read_listed_positions(path, Inputs("chess768"))],
    ),
    "a config": (
        "x.toml",
        '[train]\nsteps = 7\n[run]\ndir = "x"\n[data]\ntrain = ["x"]\n',
        lambda path, _: load_config(path).model_dump(),
    ),
    "rules of filters": ("x.toml", "min_ply = 3\n", lambda path, _: rules_of_file(str(path))),
    "king buckets": (
        "x.toml",
        f"[data.chess]\nking_buckets = {[0] * 32}\n",
        lambda path, _: parse_king_buckets(str(path)),
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_byte_order_mark_counts_for_nothing(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, read = TEXTS[kind]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    plain = read(path, capsys)
    path.write_text(text, encoding="utf-8-sig")
    assert read(path, capsys) == plain


@pytest.mark.parametrize("kind", TEXTS)
def test_another_encoding_is_named(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, read = TEXTS[kind]
    path = tmp_path / name
    path.write_text(text, encoding="utf-16")
    with pytest.raises(
        Exception, match=r"is UTF-16 text: save it as UTF-8|does not begin as any of the formats"
    ) as raised:
        read(path, capsys)
    assert str(raised.value).strip().count("\n") == 0


def test_files_put_together_have_marks_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, line in (("x.txt", f"{KINGS} | 1 | 0.5\n"), ("x.svm", "1 3:1\n")):
        one = line.encode("utf-8-sig")
        (tmp_path / name).write_bytes(one + one)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(one + one))
        lines = {printed()(tmp_path / each, capsys) for each in (name, f"{name}.gz")}
        assert [text.count("\n") for text in lines] == [2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{KINGS.replace('P', 'П')} | 1 | 0.5", "no piece has the letter П"),
        (f"{KINGS} | пять | 0.5", "not 'пять'"),
        (f"{KINGS} | 1 | x{'п' * 40}", f"not 'x{'п' * 19}'"),
    ],
)
def test_letters_that_are_not_ascii_are_shown_whole(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(f"{line}\n", encoding="utf-8")
    assert loader(["count", str(path)]) == 1
    assert said in capsys.readouterr().err
    path.write_bytes(f"{line}\n".encode("utf-16-be"))  # no mark says so
    assert loader(["count", str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_so_are_those_of_a_position_to_evaluate(tmp_path: Path) -> None:
    path = tmp_path / "x.epd"
    path.write_text(KINGS.replace("P", "П"), encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1: .* no piece has the letter П"):
        list(read_listed_positions(path, Inputs("chess768")))

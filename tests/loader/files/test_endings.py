"""Names of outputs do not say that a file is something else than it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.cli.main import main as loader
from loader.errors import UsageError
from loader.files.endings import check_output_ending
from pool.commands.main import main as pool


def test_an_output_ends_as_its_content_does_or_has_no_ending() -> None:
    assert check_output_ending(Path("a/b.TSV"), "tables", [".tsv", ".csv"]) == ".tsv"
    assert check_output_ending(Path("a.b/c"), "tables", [".tsv"]) == ""
    for name, suggested in (("x.xlsx", "x.tsv"), ("x.csv.gz", "x.csv.tsv")):
        with pytest.raises(UsageError, match=rf"tables end in .tsv, .txt or .csv, and .*; name it {suggested}"):
            check_output_ending(Path(name), "tables", [".tsv", ".txt", ".csv"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("configs demo -o a.json", "a.json: configs end in .toml, and .json is something else; name it a.toml"),
        ("watch run -o a.pdf", "a.pdf: pages end in .html or .htm, and .pdf is something else; name it a.html"),
    ],
)
def test_commands_of_pool_refuse_other_endings(
    words: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_text("{}")
    assert pool(words.split()) == 2
    assert capsys.readouterr().err == f"pool: {line}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["a.foo", "a.json", "a.parquet", "a.xz"])
@pytest.mark.parametrize("command", ["convert", "filter", "shuffle", "dedupe", "generate"])
def test_commands_of_loader_refuse_an_ending_of_no_format(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 | 10 | 0.5\n"
    (tmp_path / "in.txt").write_text(text)
    (tmp_path / "engine").write_text("")
    inputs = "--engine engine --positions 1 --nodes 1" if command == "generate" else "in.txt"
    assert loader([command, *inputs.split(), "-o", name]) == 2
    assert capsys.readouterr().err.startswith(f"loader: {name}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "in.txt"]

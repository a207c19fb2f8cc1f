"""`pool demo`: the commands that it shows are those that it runs, in any folder, and it never touches what is there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pool.commands.main import main
from pool.config import bundle
from tests.support.warm import call_pool

SMALL = ("model.l1=32", "data.batch_size=512", "train.steps=4", "train.validate_every=2", "pool.threads=1")
SETS = [word for change in SMALL for word in ("--set", change)]


@pytest.mark.runs
def test_it_trains_exports_and_evaluates_in_any_folder_and_shows_each_command(tmp_path: Path) -> None:
    done = call_pool("demo", "a demo", *SETS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = [line for line in done.stdout.splitlines() if line.startswith(("pool ", "demo "))]
    sample = bundle.configs_folder() / "sample/positions.epd"
    assert [line.split(":")[0] for line in shown[::2]] == ["demo 1/3", "demo 2/3", "demo 3/3"]
    assert shown[1].startswith("pool train 'a demo/demo.toml' --set 'run.dir=a demo' --set model.l1=32 ")
    assert shown[3] == "pool export 'a demo/checkpoints/last' -o 'a demo/net.nnue'"
    assert shown[5] == f"pool eval 'a demo/net.nnue' --epd {sample}"
    assert "king and rook" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"a demo"}
    assert {"demo.toml", "net.nnue", "checkpoints"} <= {path.name for path in (tmp_path / "a demo").iterdir()}


def test_a_command_that_fails_ends_it_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(tmp_path / "demo"), "--set", "train.steps=none"]) == 2
    said = capsys.readouterr()
    assert "train.steps" in said.err
    assert said.err.count("\n") == 1
    assert "demo 2/3" not in said.out


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"pool: {tmp_path}: is there already; remove it, or name a new one: pool demo FOLDER\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_line_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_name: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")  # as of a write, without the file's name

    monkeypatch.setattr(bundle, "read_text", full)
    assert main(["demo", str(tmp_path / "demo")]) == 71
    assert capsys.readouterr().err == f"pool: {tmp_path / 'demo/demo.toml'}: No space left on device\n"

"""`pool clean`: what it says goes, what it keeps is enough to resume, and a run that goes on is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pool.checkpoint.folder import find_newest_undamaged
from pool.checkpoint.state import BEST, FOLDER, WEIGHTS
from pool.commands.main import main
from pool.nets.record import NetState, write_record
from pool.supervisor.resources.run_folder import acquire_lock
from tests.support.checkpoints import save

TREE: dict[str, Any] = {"task": "clicks", "model": {"fields": {"user": 5}}}


def made(run: Path, **train: Any) -> Path:
    """A run's folder with checkpoints of steps 2, 4, ... 12, of which 6 is the best."""
    for step in range(2, 13, 2):
        save(run, TREE, step=step)
    (run / FOLDER / BEST).symlink_to("step-000000006")
    (run / FOLDER / "damaged-step-000000003").mkdir()
    (run / "config.json").write_text(json.dumps({**TREE, "train": {"keep_every": 0, "export_every": 0, **train}}))
    run.chmod(0o700)
    return run


def there(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / FOLDER).glob("step-*"))


@pytest.mark.parametrize(
    ("options", "train", "kept"),
    [
        ([], {}, [6, 12]),
        (["--keep", "3"], {}, [6, 8, 10, 12]),
        (["--keep", "99"], {}, [2, 4, 6, 8, 10, 12]),
        ([], {"keep_every": 4}, [4, 6, 8, 12]),
        (["--every", "0"], {"keep_every": 4}, [6, 12]),
        (["--every", "8"], {"keep_every": 4}, [6, 8, 12]),
        ([], {"export_every": 5}, [6, 10, 12]),  # 10 has still to be exported
    ],
)
def test_the_newest_the_best_and_what_the_run_keeps_stay(
    options: list[str], train: dict[str, Any], kept: list[int], tmp_path: Path, capsys: Any
) -> None:
    run = made(tmp_path / "x", **train)
    assert main(["clean", str(run), *options]) == 0
    said = capsys.readouterr().out
    assert there(run) == [2, 4, 6, 8, 10, 12]
    assert (run / FOLDER / "damaged-step-000000003").exists()
    assert "would be freed: add --yes" in said
    assert main(["clean", str(tmp_path), *options, "--yes"]) == 0
    out = capsys.readouterr().out
    assert there(run) == kept
    assert {line.partition(":")[0] for line in out.splitlines()[:-1]} == {
        line.partition(":")[0] for line in said.splitlines()[:-1]
    }
    assert not list((run / FOLDER).glob("damaged-*"))
    assert not list((run / FOLDER).glob(".*"))


def test_a_network_that_is_exported_holds_no_checkpoint(tmp_path: Path) -> None:
    run = made(tmp_path / "x", export_every=5)
    write_record(run, {10: NetState.DONE})
    assert main(["clean", str(run), "--yes"]) == 0
    assert there(run) == [6, 12]


def test_what_a_resume_needs_stays_though_newer_ones_are_damaged(tmp_path: Path) -> None:
    run = made(tmp_path / "x")
    for step in (10, 12):
        path = run / FOLDER / f"step-{step:09d}" / WEIGHTS
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert main(["clean", str(run), "--yes"]) == 0
    assert there(run) == [6, 8, 10, 12]
    assert find_newest_undamaged(run / FOLDER).good == run / FOLDER / "step-000000008"


def test_a_run_that_goes_on_is_left_alone_and_others_are_cleaned(tmp_path: Path, capsys: Any) -> None:
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    lock = acquire_lock(one)
    assert lock >= 0
    assert main(["clean", str(tmp_path), "--yes"]) == 1
    assert f"{one}: goes on, and is left alone\n" in capsys.readouterr().out
    assert (there(one), there(other)) == ([2, 4, 6, 8, 10, 12], [6, 12])


@pytest.mark.parametrize("name", ["nothing", "."])
def test_what_is_no_run_is_one_line(name: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["clean", str(tmp_path / name), "--yes"]) == 2
    assert "is no folder of a run" in capsys.readouterr().err


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, capsys: Any) -> None:
    run = made(tmp_path / "x")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious").write_text("kept")
    (run / FOLDER / "step-000000001").symlink_to(tmp_path / "mine")
    assert main(["clean", str(run), "--yes"]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert (tmp_path / "mine/precious").read_text() == "kept"
    assert there(run) == [1, 2, 4, 6, 8, 10, 12]

"""Files of other people beside an output: whatever their names are, their bytes stay and they keep their names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.chess.positions import game_index
from loader.cli.main import main
from loader.errors import UsageError
from loader.exit_codes import EXIT_USAGE
from loader.files.delivery import deliver_new, is_delivered
from loader.files.new_file import NewFile
from loader.files.whole_file import write_atomically
from loader.files.work_file import UNFINISHED, WorkFile
from tests.support.positions import encode, sample

PRECIOUS = b"somebody's"
COMMANDS: dict[str, tuple[str, ...]] = {
    "convert": (),
    "head": (),
    "sample": (),
    "filter": ("--where", "not in_check"),
    "dedupe": (),
    "shuffle": (),
}


def plant(folder: Path, name: str, kind: str, content: bytes = PRECIOUS) -> None:
    precious = folder.parent / "precious"
    if kind == "hard link":
        precious.write_bytes(content)
        (folder / name).hardlink_to(precious)
    else:
        (folder / name).write_bytes(content)


def temporary_names(out: str) -> list[str]:
    return [f"{out}.part.new", f".{out}.{os.getpid()}.tmp", f".{out}.tmp", f"{out}.tmp", f"{out}.new", f".{out}.part"]


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    (place / "in.psv").write_bytes(encode("packedsfen", sample(50)))
    return place


@pytest.mark.parametrize("kind", ["file", "hard link"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_leaves_alone_what_has_the_name_of_a_temporary_file(command: str, kind: str, folder: Path) -> None:
    for name in temporary_names("out.psv"):
        plant(folder, name, kind)
    before = seen(folder)
    assert main([command, str(folder / "in.psv"), "-o", str(folder / "out.psv"), *COMMANDS[command]]) == 0
    after = seen(folder)
    assert after.pop("out.psv")[1]
    assert after == before


@pytest.mark.parametrize("content", [b"", PRECIOUS])
@pytest.mark.parametrize("name", ["out.psv.part", "out.psv.part.journal"])
def test_work_is_never_written_through_a_hard_link(
    name: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder, name, "hard link", content)
    before = seen(folder)
    assert main(["shuffle", str(folder / "in.psv"), "-o", str(folder / "out.psv")]) == EXIT_USAGE
    assert "move" in capsys.readouterr().err
    assert seen(folder) == before


def through_new_file(path: Path) -> None:
    with NewFile(path) as file:
        file.write(b"x")
        file.publish()


def through_work(path: Path) -> None:
    """Delivers as `loader generate` and `rescore` do."""
    with WorkFile(path, {}, {}) as work:
        deliver_new(work, lambda: [b"x"])


def whole(path: Path) -> None:
    write_atomically(path, b"x")


@pytest.mark.parametrize("kind", ["file", "hard link"])
@pytest.mark.parametrize("write", [through_new_file, through_work, whole])
def test_a_writer_leaves_alone_what_has_the_name_of_a_temporary_file(
    write: Callable[[Path], None], kind: str, folder: Path
) -> None:
    for name in temporary_names("out"):
        plant(folder, name, kind)
    before = seen(folder)
    write(folder / "out")
    after = seen(folder)
    assert after.pop("out")[1]
    assert after == before


def test_what_a_death_has_left_of_a_result_is_removed_and_nothing_that_is_only_called_so(folder: Path) -> None:
    """The work knows the name, which is another one each time."""
    (mine := folder / ".out.1.00c0ffee.tmp").write_bytes(b"half of it")
    (other := folder / ".out.1.0000beef.tmp").write_bytes(PRECIOUS)
    with WorkFile(folder / "out", {}, {}) as work:
        work.commit(b"x", {UNFINISHED: mine.name})
    with WorkFile(folder / "out", {}, {}) as work:
        assert not is_delivered(work, lambda: [b"x"])
        deliver_new(work, lambda: [b"x"])
    assert not mine.exists()
    assert other.read_bytes() == PRECIOUS
    assert sorted(path.name for path in folder.iterdir()) == [other.name, "in.psv", "out"]


@pytest.mark.parametrize("name", ["../precious", "in.psv", ".in.psv.1.00c0ffee.tmp", ""])
def test_a_name_in_a_journal_that_is_no_temporary_one_removes_nothing(name: str, folder: Path) -> None:
    (folder.parent / "precious").write_bytes(PRECIOUS)
    (folder / ".in.psv.1.00c0ffee.tmp").write_bytes(PRECIOUS)
    before = seen(folder)
    with WorkFile(folder / "out", {}, {}) as work:
        work.commit(b"", {UNFINISHED: name})
        work.remove()
    assert seen(folder) == before
    assert (folder.parent / "precious").exists()


def test_work_whose_result_has_its_name_already_is_gone_on_with(folder: Path) -> None:
    """The part is a hard link of the result then, and of nothing else."""
    with WorkFile(folder / "out", {}, {}) as work:
        work.commit(b"x", {})
    (folder / "out").hardlink_to(folder / "out.part")
    with WorkFile(folder / "out", {}, {}) as work:
        assert work.end == 1
    (folder / "third").hardlink_to(folder / "out")
    with pytest.raises(UsageError, match="hard link"):
        WorkFile(folder / "out", {}, {})


@pytest.mark.parametrize("content", [PRECIOUS, b"", b"[1]\n", b"{}\n"])
def test_a_file_that_is_no_index_keeps_the_name_of_one(content: bytes, folder: Path) -> None:
    index = folder / ".games.viri.borders"
    index.write_bytes(content)
    game_index._write_index(index, {"version": 1}, [0, 5])
    assert index.read_bytes() == content
    index.unlink()
    described = {"version": 1, "format": "viriformat", "size": 9, "modified": 3, "ends": [1, 2]}
    game_index._write_index(index, described, [0, 5])
    assert game_index._read_index(index, described) == [0, 5]
    game_index._write_index(index, {**described, "modified": 4}, [0, 7])
    assert game_index._read_index(index, {**described, "modified": 4}) == [0, 7]

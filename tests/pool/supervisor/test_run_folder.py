"""The run folder: whose it must be, and what happens when it is moved, emptied or deleted while a run is in it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.run_folder import access
from pool.supervisor.resources.logs import KEPT, open_log, shorten_log
from pool.supervisor.resources.run_folder import RunFolder
from pool.telemetry.status import read_status

NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
FILES = ("config.json", "status.json", "metrics.jsonl", "history.jsonl", "lock")
FOLDERS = ("logs", "checkpoints", "tensorboard", "poison", "trace")


def entered(path: Path, *, resume: bool = True) -> RunFolder:
    return RunFolder(parse_config({"task": "tests.support.toy", "run": {"dir": str(path)}}, "test"), resume=resume)


def refused(path: Path) -> str:
    """The one line."""
    with pytest.raises(ConfigError) as caught:
        entered(path)
    text = str(caught.value)
    assert text.startswith("run.dir: ")
    assert len(text.splitlines()) == 1
    assert "/proc/" not in text
    return text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as a run leaves it."""
    path = tmp_path / "run"
    entered(path).close()
    for name in FOLDERS:
        (path / name).mkdir(mode=0o700, exist_ok=True)
        (path / name / "one").write_text("")
    for name in FILES:
        (path / name).write_text("")
    return path


def test_settings_that_nobody_has_set_are_recorded_too(tmp_path: Path) -> None:
    """So that a resumed run keeps them when the defaults are others."""
    folder = entered(tmp_path / "run")
    config = parse_config({"task": "tests.support.toy", "run": {"dir": str(tmp_path / "run")}}, "test")
    folder.write_config(config)
    assert folder.read_config() == {**config.model_dump(mode="json"), "overrides": []}
    assert folder.read_config()["optimizer"]["name"] == "pool.optim.Adam"
    folder.close()


def test_a_folder_as_a_run_leaves_it_is_taken_again(place: Path) -> None:
    entered(place).close()


@needs_root
def test_another_users_folder_is_refused_even_by_root(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    assert refused(place) == f"run.dir: {place}: belongs to another user (nobody)"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777, 0o2775])
def test_a_folder_that_others_can_write_to_is_refused_and_keeps_its_rights(mode: int, place: Path) -> None:
    place.chmod(mode)
    assert refused(place) == f"run.dir: {place}: is a folder that others can write to: chmod go-w, or take another one"
    assert place.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2750, 0o1755])
def test_a_folder_that_others_can_read_is_taken(mode: int, place: Path) -> None:
    place.chmod(mode)
    entered(place).close()


@pytest.mark.parametrize("mode", [0o1777, 0o2775, 0o777])
def test_nobody_else_can_write_to_a_folder_in_a_shared_one(mode: int, tmp_path: Path) -> None:
    """/tmp, or a project's folder that a group writes to, whatever the umask."""
    tmp_path.chmod(mode)
    before = os.umask(0)
    try:
        entered(tmp_path / "a" / "run").close()
    finally:
        os.umask(before)
    assert (tmp_path / "a/run").stat().st_mode & 0o777 == 0o755


@needs_root
@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *(f"{folder}/one" for folder in FOLDERS)])
def test_what_another_user_has_planted_in_a_run_folder_is_refused(name: str, place: Path) -> None:
    os.chown(place / name, NOBODY, NOBODY)
    assert refused(place) == f"run.dir: {place / name}: belongs to another user (nobody)"


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *(f"{folder}/one" for folder in FOLDERS)])
@pytest.mark.parametrize("is_there", [True, False])
def test_no_symbolic_link_is_followed(is_there: bool, name: str, place: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    if (place / name).is_dir():
        shutil.rmtree(place / name)
        if is_there:
            target.mkdir()
    else:
        (place / name).unlink()
        if is_there:
            target.write_text("precious")
    (place / name).symlink_to(target)
    text = refused(place)
    assert text.startswith(f"run.dir: {place / name}: ")
    assert target.exists() == is_there
    assert not target.is_file() or target.read_text() == "precious"


def test_links_of_the_checkpoints_among_themselves_are_followed(place: Path) -> None:
    for name in ("last", "best"):
        (place / "checkpoints" / name).symlink_to("step-000000001")
    entered(place).close()


@pytest.mark.parametrize("name", [*FILES, *(f"{folder}/one" for folder in FOLDERS)])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(name: str, place: Path) -> None:
    (place / name).unlink()
    os.mkfifo(place / name)
    assert refused(place).startswith(f"run.dir: {place / name}: ")


@needs_root
def test_another_users_link_does_not_choose_the_folder(place: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place)
    entered(link).close()
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert refused(link) == f"run.dir: {link}: is a symbolic link of another user (nobody)"


def test_a_moved_folder_is_the_same_one(place: Path, tmp_path: Path) -> None:
    folder = entered(place)
    place.rename(tmp_path / "moved")
    place.mkdir()
    assert not folder.restore_if_deleted()
    (folder.inside / "new").write_text("")
    assert (tmp_path / "moved/new").exists()
    assert access.show_real_paths(f"{folder.inside}/new: full") == f"{tmp_path}/moved/new: full"
    folder.close()


def test_a_deleted_folder_is_made_again_once_and_locked(place: Path) -> None:
    folder = entered(place)
    base = folder.inside
    shutil.rmtree(place)
    assert folder.restore_if_deleted()
    assert not folder.restore_if_deleted()
    assert folder.pop_notes() == [f"run.dir {place} was deleted; it is made again, and training goes on"]
    assert folder.inside == base
    (base / "new").write_text("")
    assert (place / "new").exists()
    assert "in use by another run" in refused(place)
    folder.close()
    entered(place).close()


def test_an_emptied_folder_is_locked_again(place: Path) -> None:
    folder = entered(place)
    for entry in place.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    assert folder.restore_if_deleted()
    assert not folder.restore_if_deleted()
    assert folder.pop_notes() == [f"run.dir {place} was emptied; training goes on"]
    assert "in use by another run" in refused(place)
    folder.close()


def test_a_lock_that_was_deleted_alone_is_made_again_and_named(place: Path) -> None:
    folder = entered(place)
    for _ in range(2):
        (place / "lock").unlink()
        assert not folder.restore_if_deleted(), "the folder is the same"
        assert folder.pop_notes() == [f"run.dir {place}: the file lock was deleted; it is made again"]
        assert "in use by another run" in refused(place)
    assert not folder.restore_if_deleted()
    assert folder.pop_notes() == []
    folder.close()


@pytest.mark.parametrize("how", ["another run's", "somebody's", "a file"])
def test_a_deleted_folder_is_not_made_again_where_there_is_another_one(how: str, place: Path, tmp_path: Path) -> None:
    folder = entered(place)
    place.rename(tmp_path / "moved")
    other = entered(place) if how == "another run's" else None
    if how == "somebody's":
        (place / "precious").mkdir(parents=True)
    elif how == "a file":
        place.write_text("precious")
    before = sorted(place.rglob("*"))
    shutil.rmtree(tmp_path / "moved")
    for _ in range(3):
        assert not folder.restore_if_deleted()
    (note,) = folder.pop_notes()
    assert note.startswith(f"run.dir {place} was deleted, and can't be had again: ")
    assert sorted(place.rglob("*")) == before
    if other is not None:
        other.close()
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    assert folder.restore_if_deleted()
    folder.close()


def folder_in_the_way(path: Path) -> None:
    path.mkdir()


def pipe_in_the_way(path: Path) -> None:
    os.mkfifo(path)


def link_in_the_way(path: Path) -> None:
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize("plant", [folder_in_the_way, pipe_in_the_way, link_in_the_way])
def test_a_log_that_can_not_be_opened_ends_nothing(plant: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir(0o700)
    plant(tmp_path / "logs/worker-0.log")
    fd = open_log(tmp_path / "logs/worker-0.log")
    assert os.write(fd, b"lost") == 4
    os.close(fd)
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_has_grown_is_cut_to_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "logs/on_export.log"
    fd = open_log(path)
    lines = [f"{i:07d}\n" for i in range(KEPT // 4)]
    os.write(fd, "".join(lines).encode())
    assert shorten_log(fd) == 0
    os.write(fd, b"one more\n")
    assert shorten_log(fd) == 2 * KEPT + 9 - path.stat().st_size > 0
    os.write(fd, b"and on\n")
    os.close(fd)
    kept = path.read_text().splitlines(keepends=True)
    assert kept[-2:] == ["one more\n", "and on\n"]
    assert kept[:-2] == lines[-len(kept) + 2 :]
    assert KEPT - 100 < path.stat().st_size < KEPT + 100


def test_a_logs_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    os.close(open_log(tmp_path / "logs/worker-0.log"))
    assert (tmp_path / "logs/worker-0.log").is_file()


def test_an_error_that_names_no_path_of_a_descriptor_is_shown_as_it_is() -> None:
    text = f"/proc/self/fd/999999/x: {os.strerror(errno.ENOENT)}"
    assert access.show_real_paths(text) == text


def test_restarts_of_all_lives_are_counted_and_a_supervisor_that_was_killed_is_one(tmp_path: Path) -> None:
    config = parse_config({"task": "tests.support.toy", "run": {"dir": str(tmp_path / "run")}}, "test")

    def restarts_after(deaths: int, *, ends: bool) -> int:
        folder = entered(tmp_path / "run")
        folder.write_config(config)
        for _ in range(deaths):
            folder.count_restart()
        if ends:
            folder.record_end(143)
        folder.close()
        status = read_status(tmp_path / "run")
        assert status is not None
        return status.restarts

    assert restarts_after(2, ends=True) == 2
    assert restarts_after(1, ends=False) == 3
    assert restarts_after(0, ends=True) == 4

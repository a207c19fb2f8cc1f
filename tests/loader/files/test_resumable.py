"""Work that goes on where it stopped: after a death at any byte, and never over what somebody else has put there."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.errors import DataError, InterruptedBySignalError, UsageError
from loader.files import journal as journal_lines
from loader.files import work_file
from loader.files.delivery import APPENDED_AT, deliver_appended, deliver_new, is_delivered
from loader.files.interruption import record_stop_signals
from loader.files.new_file import NewFile
from loader.files.work_file import UNFINISHED, WorkFile, part_path
from tests.support.failing_calls import SHORT_WRITE, failing_call

SETTINGS = {"--seed": 1, "--book": None}
START = {"games": 0}
PIECES = (b"first", b"", b"the third piece", b"x", b"", b"sixth\n\0\xff", b"")


class Work:
    """A work file made of PIECES, and how long it and its journal were after each."""

    def __init__(self, folder: Path, *, synced_after: int | None = None) -> None:
        self.out = folder / "out"
        self.part = part_path(self.out)
        self.journal = folder / "out.part.journal"
        with WorkFile(self.out, SETTINGS, START) as work:
            self.ends = [(0, self.journal.stat().st_size)]
            for number, piece in enumerate(PIECES, start=1):
                work.commit(piece, {"games": number})
                self.ends.append((self.part.stat().st_size, self.journal.stat().st_size))
                if number == synced_after:
                    work.sync()
        self.data, self.lines = self.part.read_bytes(), self.journal.read_bytes()

    def leave(self, data: bytes, lines: bytes) -> None:
        """What a death has left on the disk."""
        self.part.write_bytes(data)
        self.journal.write_bytes(lines)

    def whole(self, data: int, lines: int) -> int:
        """How many pieces are whole if so many bytes of each are left."""
        return max(i for i, (end, line_end) in enumerate(self.ends) if (end <= data and line_end <= lines) or i == 0)


def assert_goes_on(work: Work, pieces: int) -> None:
    """So many pieces are found, and the others can be added: the same bytes as without a death."""
    with WorkFile(work.out, SETTINGS, START) as again:
        assert again.state == {"games": pieces}
        assert work.part.read_bytes() == b"".join(PIECES[:pieces])
        for number in range(pieces, len(PIECES)):
            again.commit(PIECES[number], {"games": number + 1})
    assert work.part.read_bytes() == b"".join(PIECES)


def test_work_goes_on_from_the_last_whole_piece_after_a_cut_at_every_byte(tmp_path: Path) -> None:
    work = Work(tmp_path)
    for kept in range(1, len(work.data) + 1):
        work.leave(work.data[:kept], work.lines)
        assert_goes_on(work, work.whole(kept, len(work.lines)))
    header = work.ends[0][1]
    for kept in range(header, len(work.lines) + 1):
        work.leave(work.data, work.lines[:kept])
        assert_goes_on(work, work.whole(len(work.data), kept))


@pytest.mark.parametrize("seed", range(50))
def test_work_goes_on_after_a_power_failure_that_left_zeros_or_noise_in_the_tails(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    work = Work(tmp_path)
    data, lines = rng.randint(1, len(work.data)), rng.randint(work.ends[0][1], len(work.lines))
    noise = rng.choice((bytes, rng.randbytes))
    work.leave(work.data[:data] + noise(rng.randint(0, 30)), work.lines[:lines] + noise(rng.randint(0, 30)))
    assert_goes_on(work, work.whole(data, lines))


def test_a_death_before_the_journal_has_its_header_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    work = Work(tmp_path)
    header = work.ends[0][1]
    for torn in (*(work.lines[:kept] for kept in range(header)), bytes(header)):
        work.leave(b"", torn)
        assert_goes_on(work, 0)


def test_bytes_that_had_reached_the_disk_and_are_others_now_are_damage(tmp_path: Path) -> None:
    work = Work(tmp_path, synced_after=3)
    data = b"first" + b"THE" + work.data[8:]
    work.leave(data, work.lines)
    with pytest.raises(DataError, match=r"out\.part: offset 5: is not what out\.part\.journal says"):
        WorkFile(work.out, SETTINGS, START)
    assert (work.part.read_bytes(), work.journal.read_bytes()) == (data, work.lines)


def test_a_power_failure_during_a_sync_may_leave_the_end_of_the_journal_without_what_is_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bytes] = []
    safe = 0  # bytes of the journal
    journal = tmp_path / "out.part.journal"

    def sync(descriptor: int) -> None:
        nonlocal safe
        if journal.exists() and os.path.samestat(os.fstat(descriptor), journal.stat()):
            lines = journal.read_bytes()
            end = len(lines) - len(journal_lines.SYNCED) - 1
            left.append(lines[:safe] + bytes(max(0, end - safe)) + lines[max(safe, end) :])
            safe = len(lines)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        patch.setattr(os, "fdatasync", sync)
        work = Work(tmp_path, synced_after=5)
    assert len(left) == 2
    for lines in left[1:]:
        work.leave(work.data, lines)
        assert_goes_on(work, 0)


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    work = Work(tmp_path)
    with pytest.raises(UsageError, match=r"begun with other settings: --book none \(now b\), --seed 1 \(now 2\)"):
        WorkFile(work.out, {"--seed": 2, "--book": "b"}, START)
    assert (work.part.read_bytes(), work.journal.read_bytes()) == (work.data, work.lines)


def test_one_process_at_a_time_has_the_work(tmp_path: Path) -> None:
    with (
        WorkFile(tmp_path / "out", SETTINGS, START),
        pytest.raises(UsageError, match="another process is at work on it"),
    ):
        WorkFile(tmp_path / "out", SETTINGS, START)


def test_no_process_takes_over_files_that_another_is_about_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_process() -> None:
        monkeypatch.undo()
        with pytest.raises(UsageError, match="another process is at work on it"):
            WorkFile(work.out, {"--seed": 2}, START)

    def unlink(path: Path, *, missing_ok: bool) -> None:
        remove(path, missing_ok=missing_ok)
        if path == work.part:
            other_process()

    work, remove = Work(tmp_path), Path.unlink
    with WorkFile(work.out, SETTINGS, START) as again:
        monkeypatch.setattr(Path, "unlink", unlink)
        again.remove()
        assert Path.unlink is not unlink
    assert list(tmp_path.iterdir()) == []


def test_work_is_begun_anew_when_its_part_has_been_removed(tmp_path: Path) -> None:
    work = Work(tmp_path, synced_after=3)
    work.part.unlink()
    with WorkFile(work.out, {"--seed": 2}, START) as again:
        assert again.state == START


def test_files_without_work_in_them_are_not_left_behind(tmp_path: Path) -> None:
    with WorkFile(tmp_path / "out", SETTINGS, START):
        pass
    assert list(tmp_path.iterdir()) == []


FOREIGN: dict[str, tuple[Any, ...]] = {
    "part without a journal": ("out.part", b"somebody's"),
    "another journal": ("out.part.journal", b"somebody's\n"),
    "another journal without a line's end": ("out.part.journal", b"somebody's"),
    "empty part and another journal": ("out.part.journal", b"somebody's\n", "out.part"),
    "part and an empty journal": ("out.part", b"somebody's", "out.part.journal"),
    "journal of another format": ("out.part.journal", b'{"work file":2,"settings":{}}\n'),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_of_somebody_else_are_refused_and_kept(kind: str, tmp_path: Path) -> None:
    name, content, *empty = FOREIGN[kind]
    files = {name: content} | dict.fromkeys(empty, b"")
    for each in files:
        (tmp_path / each).write_bytes(files[each])
    with pytest.raises(UsageError, match="is not its journal"):
        WorkFile(tmp_path / "out", SETTINGS, START)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize("name", ["out.part", "out.part.journal"])
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_plain_file_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / name, tmp_path / "other"
    other.write_bytes(b"precious")
    {"folder": path.mkdir, "link": lambda: path.symlink_to(other), "pipe": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(UsageError, match="is not a regular file"):
        WorkFile(tmp_path / "out", SETTINGS, START)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["other", name])
    assert other.read_bytes() == b"precious"


def test_a_piece_that_can_not_be_written_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(tmp_path)

    def full_disk(descriptor: int, data: memoryview, offset: int) -> int:
        if len(data) > 3:
            return real(descriptor, data[:3], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = os.pwrite
    with WorkFile(work.out, SETTINGS, START) as again:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full_disk)
            with pytest.raises(OSError, match="No space left") as raised:
                again.commit(b"one more", {"games": 8})
        assert raised.value.filename == str(work.part)
        assert (work.part.read_bytes(), work.journal.read_bytes()) == (work.data, work.lines)
        again.commit(b"one more", {"games": 8})
    assert work.part.read_bytes() == work.data + b"one more"


def blocks() -> Iterator[bytes]:
    yield from (b"packed ", b"pieces, ", b"the last")


PACKED = b"packed pieces, the last"


def test_a_new_file_gets_the_result_and_the_work_is_removed(tmp_path: Path) -> None:
    work = Work(tmp_path)
    with WorkFile(work.out, SETTINGS, START) as again:
        deliver_new(again, blocks)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", PACKED)]


def test_a_file_that_has_appeared_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def others() -> Iterator[bytes]:
        yield from blocks()
        work.out.write_bytes(b"somebody's")

    work = Work(tmp_path)
    with WorkFile(work.out, SETTINGS, START) as again, pytest.raises(UsageError, match="never replaced"):
        deliver_new(again, others)
    assert work.out.read_bytes() == b"somebody's"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.part", "out.part.journal"]
    work.out.write_bytes(b"somebody's other")
    with WorkFile(work.out, SETTINGS, START) as again:
        assert not is_delivered(again, blocks)


def test_a_death_between_delivery_and_removal_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(tmp_path)
    with WorkFile(work.out, SETTINGS, START) as again, monkeypatch.context() as patch:
        patch.setattr(again, "remove", lambda: None)
        deliver_new(again, blocks)
    os.link(work.out, tmp_path / again.state[UNFINISHED])
    for removed in ((), (work.part,)):
        with WorkFile(work.out, SETTINGS, START) as again, monkeypatch.context() as patch:
            assert is_delivered(again, blocks)
            patch.setattr(Path, "unlink", lambda *_, **__: None)
            again.remove()
        for path in removed:
            path.unlink()
    with WorkFile(work.out, SETTINGS, START) as again:
        assert is_delivered(again, blocks)
        again.remove()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", PACKED)]


@pytest.mark.parametrize("written", range(len(PACKED) + 1))
def test_an_append_that_death_has_torn_at_any_byte_is_completed(written: int, tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.out.write_bytes(b"older " + PACKED[:written])
    with WorkFile(work.out, SETTINGS, START) as again:
        again.commit(b"", {**again.state, APPENDED_AT: 6})
    with WorkFile(work.out, SETTINGS, START) as again:
        deliver_appended(again, blocks)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"older " + PACKED)]


@pytest.mark.parametrize("failing", ["disk", "signal"])
def test_an_append_that_fails_leaves_the_file_as_it_was(failing: str, tmp_path: Path) -> None:
    def ends_early() -> Iterator[bytes]:
        yield b"packed "
        if failing == "signal":
            raise InterruptedBySignalError(signal.SIGTERM)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    work = Work(tmp_path)
    work.out.write_bytes(b"older ")
    with WorkFile(work.out, SETTINGS, START) as again:
        with pytest.raises((OSError, InterruptedBySignalError)):
            deliver_appended(again, ends_early)
        assert work.out.read_bytes() == b"older "
        work.out.write_bytes(b"older and longer ")
        deliver_appended(again, blocks)
    assert work.out.read_bytes() == b"older and longer " + PACKED


@pytest.mark.parametrize("now", [b"old", b"older some", b"older packed pieces, somebody's"])
def test_a_file_that_others_changed_during_a_torn_append_is_left_alone(now: bytes, tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.out.write_bytes(now)
    with WorkFile(work.out, SETTINGS, START) as again:
        again.commit(b"", {**again.state, APPENDED_AT: 6})
        with pytest.raises(DataError, match=r"has lost bytes|was changed while"):
            deliver_appended(again, blocks)
    assert work.out.read_bytes() == now
    assert work.part.read_bytes() == work.data


def test_a_new_file_comes_by_renaming_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    with NewFile(tmp_path / "out") as new:
        new.write(b"x")
        new.publish()
    with pytest.raises(FileExistsError), NewFile(tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def work_through(out: Path, *, append: bool) -> None:
    """As a command does it."""
    with WorkFile(out, SETTINGS, START) as work:
        if is_delivered(work, blocks):
            work.remove()
            return
        for number in range(work.state["games"], len(PIECES)):
            work.commit(PIECES[number], {"games": number + 1})
        if append:
            deliver_appended(work, blocks)
        else:
            deliver_new(work, blocks)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, SHORT_WRITE])
def test_any_system_call_may_fail_and_the_same_command_makes_it_good(
    fault: int | str, append: bool, tmp_path: Path
) -> None:
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        out = folder / "out"
        if append:
            out.write_bytes(b"older ")
        with failing_call(at, fault) as calls, contextlib.suppress(OSError):
            work_through(out, append=append)
        old = out.read_bytes() if append else b""
        if [path.name for path in folder.iterdir()] != ["out"] or old == b"older ":
            assert not append or old.startswith(b"older ")
            work_through(out, append=append)
        assert out.read_bytes() == (b"older " if append else b"") + PACKED, f"call {at}: {calls.failed}"
        assert [path.name for path in folder.iterdir()] == ["out"], f"call {at}: {calls.failed}"
        if calls.count < at:
            break
    assert at > 40


def test_signals_are_recorded_and_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with record_stop_signals() as interruption:
            signal.raise_signal(signal.SIGHUP)
            interruption.check()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(InterruptedBySignalError, match="interrupted by SIGTERM"):
                interruption.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_synced_is_said_in_the_journal_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_file, "SYNC_SECONDS", -1)
    work = Work(tmp_path)
    assert work.lines.count(b'"synced"\n') == len(PIECES)

"""Before the first step: what is missing is one line with the numbers and what to lower; every call may fail."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.checkpoint import store
from pool.checkpoint.folder import find_newest_undamaged
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import PoolError, RunError
from pool.shm import segment
from pool.supervisor.prepare.memory import MemoryPart, describe_shortage, format_table
from pool.supervisor.prepare.preflight import check_folder
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.system_memory import Available, available_memory
from tests.pool.checkpoint.test_checkpoints import example
from tests.support.failing_calls import FAULTS, failing_call
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, check, command

MIB = 1 << 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def in_shell(before: str, dir: Path) -> Ended:
    """A run that is started after some shell commands."""
    words = command(dir, TOY)
    done = subprocess.run(
        ["sh", "-c", f'{before} && exec "$@"', "sh", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return Ended(dir, done.returncode, done.stdout, done.stderr)


@contextmanager
def small_disk(place: Path, options: bytes) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 1 if options == b"ro" else 0, b"size=1m") != 0:
        pytest.skip(f"mount: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.umount2(os.fsencode(place), 2)


# --- memory ---


def fake_proc(root: Path, available_mib: int, cgroup: str, mounts: str) -> Path:
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available_mib << 10} kB\n")
    (proc / "self/cgroup").write_text(cgroup)
    (proc / "self/mountinfo").write_text(mounts)
    return proc


def group(folder: Path, version: int, limit: str, used: int, cache: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{'total_' if version == 1 else ''}inactive_file {cache}\n")


def test_the_tightest_of_all_groups_above_counts_in_version_2(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    proc = fake_proc(tmp_path, 1000, "0::/a/b\n", f"41 31 0:38 / {top} rw - cgroup2 cgroup2 rw\n")
    group(top / "a/b", 2, "max", 0, 0)
    group(top / "a", 2, str(300 * MIB), 100 * MIB, 40 * MIB)
    assert available_memory(proc) == Available(240 * MIB, f"limit of the control group {top / 'a'}")
    group(top / "a", 2, "max", 100 * MIB, 0)
    assert available_memory(proc) == Available(1000 * MIB, "MemAvailable of /proc/meminfo")


def test_the_tightest_of_all_groups_above_counts_in_version_1(tmp_path: Path) -> None:
    """Also in a container that sees its own group as the top one."""
    top = tmp_path / "memory"
    mounts = f"31 23 0:28 / /x rw - tmpfs tmpfs rw\n35 31 0:32 /box {top} rw - cgroup cgroup rw,memory\n"
    proc = fake_proc(tmp_path, 1000, "5:cpu:/box/job\n4:memory:/box/job\n", mounts)
    group(top, 1, str(500 * MIB), 450 * MIB, 10 * MIB)
    group(top / "job", 1, "9223372036854771712", 0, 0)
    assert available_memory(proc) == Available(60 * MIB, f"limit of the control group {top}")


def test_a_shortage_of_memory_is_one_line_with_numbers_and_what_to_lower() -> None:
    rows = [MemoryPart("ring", 600 * MIB, "data.batch_size"), MemoryPart("weights", 10 * MIB, "model")]
    assert describe_shortage(rows, Available(700 * MIB, "a group")) is None
    problem = describe_shortage(rows, Available(500 * MIB, "a group"))
    assert problem is not None
    assert "needs 610 MiB, and 90% of 500 MiB may be taken (a group)" in problem
    assert "ring 600 MiB: lower data.batch_size" in problem
    assert len(format_table(rows, Available(500 * MIB, "a group")).splitlines()) == 4


def test_memory_that_others_take_meanwhile_is_an_error_before_the_next_piece() -> None:
    left = [2]

    def before_chunk(nbytes: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RunError(f"{nbytes} more")

    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(RunError, match="67108864 more"):
        segment.create_segment("test", 256 * MIB, before_chunk)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


@pytest.mark.runs
def test_check_shows_the_memory_plan_and_makes_nothing(tmp_path: Path) -> None:
    ended = check(tmp_path / "run", TOY)
    assert ended.code == 0, ended.err
    lines = {line.split("  ")[0]: line for line in ended.out.splitlines()}
    assert {"ring (shared)", "weights (shared)", "optimizer state", "together", "available"} <= lines.keys()
    assert not (tmp_path / "run").exists()


@pytest.mark.runs
@needs_root
def test_a_control_group_that_is_too_small_is_one_line_at_the_start(tmp_path: Path) -> None:
    top = Path("/sys/fs/cgroup/memory")
    place = top / f"sparsepool-test-{os.getpid()}"
    try:
        place.mkdir()
        (place / "memory.limit_in_bytes").write_text(str(700 * MIB))
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        ended = in_shell(f"echo $$ > {place}/cgroup.procs", tmp_path / "run")
    finally:
        place.rmdir()
    assert ended.code == 71
    assert "not enough memory: the run needs" in ended.err
    assert f"limit of the control group {place}" in ended.err
    assert len(ended.err.splitlines()) == 1


# --- disk, descriptors ---


@pytest.mark.runs
@needs_root
@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [(b"", 71, "not enough room on the disk of"), (b"ro", 2, "Read-only file system")],
)
def test_a_disk_that_takes_no_checkpoint_is_one_line_at_the_start(
    options: bytes, code: int, complaint: str, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", options):
        words = [*command(tmp_path / "run", TOY), "--set", f"run.dir={tmp_path / 'disk/run'}"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == code, done.stderr
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.runs
def test_too_few_descriptors_are_one_line_at_the_start(tmp_path: Path) -> None:
    ended = in_shell("ulimit -n 40", tmp_path / "run")
    assert ended.code == 71
    assert "RLIMIT_NOFILE (ulimit -n) allows 40" in ended.err
    assert len(ended.err.splitlines()) == 1


# --- every call may fail ---


def toy_config(dir: Path) -> Config:
    return parse_config({"task": "tests.support.toy", "run": {"dir": str(dir)}}, "test")


def start_up(config: Config) -> None:
    folder = RunFolder(config, resume=True)
    try:
        check_folder(folder.path)
        assert folder.find_last_checkpoint() is not None
    finally:
        folder.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: errno.errorcode.get(fault, fault))  # type: ignore[call-overload]
def test_whatever_call_of_the_start_fails_it_is_one_line_and_the_next_start_succeeds(
    fault: int | str, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    (origin / "run").mkdir(parents=True)
    for step in (1, 2):
        store.save_checkpoint(origin / "run/checkpoints", example(step))
    for at in range(1, 1000):
        place = tmp_path / f"{at}"
        shutil.copytree(origin, place, symlinks=True)
        config = toy_config(place / "run")
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        said = "nothing"
        with failing_call(at, fault) as calls:
            try:
                start_up(config)
            except PoolError as error:
                said = str(error)
        assert len(said.splitlines()) == 1
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before, f"call {at}, {calls.failed}"
        start_up(config)
        assert find_newest_undamaged(place / "run/checkpoints").good is not None
        assert not list(place.rglob(".*")), f"call {at}, {calls.failed}"
        shutil.rmtree(place)
        if not calls.failed:
            break
    else:
        pytest.fail("a start takes more than a thousand calls")


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.ENOMEM, errno.EINTR])
def test_whatever_call_of_making_memory_fails_no_descriptor_is_left(fault: int) -> None:
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for at in range(1, 100):
        with failing_call(at, fault) as calls:
            try:
                fd = segment.create_segment("test", 3 * MIB, lambda _: None)
            except OSError:
                fd = -1
        if fd >= 0:
            os.close(fd)
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before
        if not calls.failed:
            break

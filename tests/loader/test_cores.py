"""Threads by default: those that this process may use, not those of the machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from loader.cores import allowed_cores, decoding_threads
from loader.stream.sources import data_config
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.process.start import FeederStart
from pool.protocol.identity import FEEDER, Peer
from tests.support.paths import ROOT
from tests.support.run_plans import planned, run_plan

V1 = "cpu,cpuacct"


@pytest.fixture
def one_core() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def v1(quota: str, folder: str = "") -> dict[str, str]:
    return {f"{V1}/{folder}cpu.cfs_quota_us": quota, f"{V1}/{folder}cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "900000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a\n", {"a/cpu.max": "1000 100000\n"}, 1),
        ("0::/a\n", {"a/cpu.max": "100001 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/gone/in/a/container\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, 64),
        ("0::/a\n", {}, 64),
        ("0::/a\n", {"a/cpu.max": "nonsense"}, 64),
        ("0::/a\n", {"a/cpu.max": "100000 0\n"}, 64),
        ("0::/a\n", {"a/cpu.max": ""}, 64),
        (f"4:{V1}:/a\n0::/x\n", v1("400000\n", "a/"), 4),
        (f"4:{V1}:/gone\n", v1("400000\n"), 4),
        (f"4:{V1}:/a\n", v1("-1\n", "a/"), 64),
        (f"9:cpuset:/a\n4:{V1}:/b\n", {"cpuset/a/cpu.max": "100000 100000", **v1("-1\n", "b/")}, 64),
        ("", {}, 64),
    ],
)
def test_quotas_of_control_groups_count(
    groups: str, files: Mapping[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "groups").write_text(groups)
    assert allowed_cores(tmp_path / "groups", tmp_path) == cores
    assert allowed_cores(tmp_path / "there is none", tmp_path) == 64


@pytest.mark.parametrize(
    ("cores", "accelerators", "threads"),
    [(1, 0, 2), (2, 0, 2), (64, 0, 2), (2, 1, 2), (4, 1, 2), (6, 1, 3), (16, 1, 4), (16, 8, 8), (128, 8, 18)],
)
def test_decoding_threads_are_half_of_the_cores_as_far_as_accelerators_can_use_them(
    cores: int, accelerators: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.cores.allowed_cores", lambda: cores)
    assert decoding_threads(accelerators) == threads
    cards = [f"cuda:{index}" for index in range(accelerators)]
    assert Config().num_decoding_threads(["cpu", "fake:0", *cards, *cards]) == threads
    assert data_config().num_threads == decoding_threads()
    chosen = parse_config({"data": {"threads": 7}}, "here")
    assert chosen.num_decoding_threads(cards) == chosen.data.num_threads == 7


def test_the_feeder_is_told_how_many_threads_the_runs_devices_make() -> None:
    start = run_plan(Path("/nowhere"), answer=planned(devices=("cuda:0",))).start_document(Peer(FEEDER))
    assert isinstance(start, FeederStart)
    assert start.data_config.threads == decoding_threads(1)


@pytest.mark.usefixtures("one_core")
def test_the_affinity_counts_in_both_packages() -> None:
    assert allowed_cores() == 1
    assert Config().num_coordinator_threads == 1
    assert Config().num_worker_threads("cpu", 1) == 1
    shown = "import loader.cli.options as l, sparsepool.positions as s; print(l.ALL_THREADS, s.THREADS)"
    done = subprocess.run([sys.executable, "-P", "-c", shown], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["1", "1"]


def test_nothing_asks_for_the_cores_of_the_machine() -> None:
    asked = re.compile(r"\bcpu_count\b|hardware_concurrency|omp_get_num_procs|_SC_NPROCESSORS")
    sources = [path for place in ("loader", "pool", "sparsepool") for path in (ROOT / place).rglob("*.[pch]*")]
    found = [path.name for path in sources if path.suffix in (".py", ".h", ".cpp") and asked.search(path.read_text())]
    assert found == []
